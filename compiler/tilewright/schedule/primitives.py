"""Schedule primitives, each an application as data: frozen, printable, replayable. Those that change what
stages compute are in `stage_primitives.py`.

`apply` proves that the primitive is legal where it stands, or raises ScheduleError saying what was expected
and what was found. The field names are the arguments of the text form, e.g. `split conv conv.i3 16`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.errors import ScheduleError
from tilewright.loops.ir import LoopKind
from tilewright.schedule.intrinsics import find
from tilewright.schedule.state import (
    Attach,
    FuseRelation,
    Leaf,
    SplitRelation,
    StageState,
    State,
    is_reduction,
)


@dataclass(frozen=True)
class Primitive:
    """Base: one application to a stage."""

    keyword: ClassVar[str] = ""
    stage: str

    def apply(self, state: State) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Split(Primitive):
    """Two loops for one; a factor that does not divide the extent leaves a tail, which is guarded.

    for i in 0..n        ->   for i.o in 0..ceil(n / factor)
                                for i.i in 0..factor
    """

    keyword: ClassVar[str] = "split"
    axis: str
    factor: int

    @property
    def names(self) -> tuple[str, str]:
        return f"{self.axis}.o", f"{self.axis}.i"

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        if self.factor < 1:
            raise ScheduleError(f"split {self.axis}: the factor must be positive, found {self.factor}")
        at = stage.position(self.axis)
        _plain_loop(stage, self.axis, "split")
        outer, inner = self.names
        kind = stage.leaves[at].kind
        stage.leaves[at : at + 1] = [Leaf(outer, kind), Leaf(inner, kind)]
        stage.relations.append(SplitRelation(self.axis, outer, inner, self.factor))


@dataclass(frozen=True)
class Overlap(Split):
    """Two loops for one, whose last turn starts early enough to be whole: no tail, some elements twice.

    for i in 0..n        ->   for i.o in 0..ceil(n / factor)
                                for i.i in 0..factor          i = min(i.o * factor, n - factor) + i.i

    A data axis; what is computed again must be the same as before, so an output, whose memory may be that of
    an operand, is refused, and so is a loop over blocks of sums that is inside a reduce loop or shared by
    threads. Threads that share blocks of anything else write equal values.
    """

    keyword: ClassVar[str] = "overlap"

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        if self.stage in state.outputs or stage.leaf(self.axis).kind != "data":
            raise ScheduleError(f"overlap: '{self.axis}' must be a data axis of a stage that is no output")
        super().apply(state)
        stage.relations[-1] = SplitRelation(self.axis, *self.names, self.factor, overlapping=True)


@dataclass(frozen=True)
class Fuse(Primitive):
    """One loop for two neighbours.

    for i in 0..n             ->   for i*j in 0..n * m
      for j in 0..m
    """

    keyword: ClassVar[str] = "fuse"
    outer: str
    inner: str

    @property
    def name(self) -> str:
        return f"{self.outer}*{self.inner}"

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        first, second = stage.position(self.outer), stage.position(self.inner)
        if second != first + 1:
            raise ScheduleError(
                f"fuse: '{self.inner}' must stand directly inside '{self.outer}' in '{self.stage}'"
            )
        _plain_loop(stage, self.outer, "fuse")
        _plain_loop(stage, self.inner, "fuse")
        if stage.leaves[first].kind != stage.leaves[second].kind:
            raise ScheduleError(
                f"fuse: '{self.outer}' and '{self.inner}' must both be data or both be reduce axes"
            )
        stage.leaves[first : second + 1] = [Leaf(self.name, stage.leaves[first].kind)]
        stage.relations.append(FuseRelation(self.outer, self.inner, self.name))


@dataclass(frozen=True)
class Reorder(Primitive):
    """The named loops in the given order, in the places that they held together.

    for i, j, k   -> reorder(k, i) ->   for k, j, i
    """

    keyword: ClassVar[str] = "reorder"
    axes: tuple[str, ...]

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        places = sorted(stage.position(axis) for axis in self.axes)
        if len(set(places)) != len(self.axes):
            raise ScheduleError(f"reorder: an axis is named twice in {', '.join(self.axes)}")
        ordered = [stage.leaf(axis) for axis in self.axes]
        for place, leaf in zip(places, ordered, strict=True):
            stage.leaves[place] = leaf


@dataclass(frozen=True)
class _Annotate(Primitive):
    axis: str
    kind: ClassVar[LoopKind] = LoopKind.SERIAL

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        leaf = stage.leaf(self.axis)
        _plain_loop(stage, self.axis, self.keyword)
        leaf.loop = self.kind


@dataclass(frozen=True)
class Unroll(_Annotate):
    """The loop's turns are written out: `for i in 0..2: f(i)` -> `f(0); f(1)`. The extent must be
    constant.
    """

    keyword: ClassVar[str] = "unroll"
    kind: ClassVar[LoopKind] = LoopKind.UNROLLED


@dataclass(frozen=True)
class Vectorize(_Annotate):
    """The loop's turns become the lanes of vector instructions. A data axis, innermost, of constant
    extent.
    """

    keyword: ClassVar[str] = "vectorize"
    kind: ClassVar[LoopKind] = LoopKind.VECTORIZED

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        if stage.leaf(self.axis).kind != "data":
            raise ScheduleError(f"vectorize: '{self.axis}' is a reduce axis; lanes would have to be combined")
        super().apply(state)


@dataclass(frozen=True)
class Parallel(_Annotate):
    """The loop's turns are shared among the threads of the pool. A data axis."""

    keyword: ClassVar[str] = "parallel"
    kind: ClassVar[LoopKind] = LoopKind.PARALLEL

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        if stage.leaf(self.axis).kind != "data":
            raise ScheduleError(f"parallel: '{self.axis}' is a reduce axis; threads would race on the sum")
        super().apply(state)


@dataclass(frozen=True)
class Bind(Primitive):
    """The loop becomes an index of the device, e.g. `global.0`, `group.1`, `local.0`. A data axis."""

    keyword: ClassVar[str] = "bind"
    axis: str
    thread: str

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        leaf = stage.leaf(self.axis)
        _plain_loop(stage, self.axis, "bind")
        if leaf.kind != "data":
            raise ScheduleError(f"bind: '{self.axis}' is a reduce axis; work-items would race on the sum")
        if any(other.thread == self.thread for other in stage.leaves):
            raise ScheduleError(f"bind: a loop of '{self.stage}' is bound to {self.thread} already")
        leaf.loop, leaf.thread = LoopKind.BOUND, self.thread


@dataclass(frozen=True)
class ComputeInline(Primitive):
    """The stage's body stands in place of every read of it.

    b[i] = a[i] + 1;  c[i] = b[i] * 2     ->    c[i] = (a[i] + 1) * 2
    """

    keyword: ClassVar[str] = "compute_inline"

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        if is_reduction(stage):
            raise ScheduleError(
                f"compute_inline: '{self.stage}' reduces; only element-wise stages can be inlined"
            )
        if self.stage in state.outputs:
            raise ScheduleError(f"compute_inline: '{self.stage}' is an output and must be stored")
        stage.attach = Attach("inline")


@dataclass(frozen=True)
class ComputeAt(Primitive):
    """The stage is computed inside a loop of its consumer, for just the part that is needed there.

    for i: b[i] = ...          ->    for i:
    for i: c[i] = f(b[i])              b' = ...
                                       c[i] = f(b')
    """

    keyword: ClassVar[str] = "compute_at"
    consumer: str
    axis: str

    def apply(self, state: State) -> None:
        stage, consumer = state.stage(self.stage), state.stage(self.consumer)
        if self.stage in state.outputs:
            raise ScheduleError(f"compute_at: '{self.stage}' is an output; it must be written whole")
        consumer.position(self.axis)
        readers = state.consumers(self.stage)
        if not readers:
            raise ScheduleError(f"compute_at: nobody reads '{self.stage}'")
        stage.attach = Attach("at", self.consumer, self.axis)


@dataclass(frozen=True)
class SetScope(Primitive):
    """Where the stage's result lives: local (default), register, shared, heap, or a scope of the target."""

    keyword: ClassVar[str] = "set_scope"
    scope: str

    def apply(self, state: State) -> None:
        if self.stage in state.outputs:
            raise ScheduleError(f"set_scope: '{self.stage}' is an output and lives in global memory")
        state.stage(self.stage).scope = self.scope


@dataclass(frozen=True)
class Pad(Primitive):
    """A tail is computed as if it were whole, past the end of a data axis: no guards.

    for i in 0..24: t[i] = f(i)    -> pad(i, 16) ->    for i in 0..32: t[i] = f(i)

    Nobody reads the elements past the end. What they are computed from must be in memory, e.g. in the last
    block of a storage; lowering proves that.
    """

    keyword: ClassVar[str] = "pad"
    axis: str
    factor: int

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        if self.stage in state.outputs:
            raise ScheduleError(f"pad: '{self.stage}' is an output, which has no room past its end")
        axes = [axis.name for axis in stage.stage.axes]
        if self.axis not in axes or self.factor < 1:
            raise ScheduleError(
                f"pad: expected a data axis of '{self.stage}' ({', '.join(axes)}) and a positive factor, "
                f"found {self.axis} and {self.factor}"
            )
        stage.padded[self.axis] = self.factor


@dataclass(frozen=True)
class Tensorize(Primitive):
    """The loops from `axis` inwards are a declared intrinsic; lowering proves that they have its meaning.

    for i in 0..16:                        ->   tensorized(transpose) for i in 0..16:
      for j in 0..16: y[i, j] = x[j, i]           for j in 0..16: y[i, j] = x[j, i]
    """

    keyword: ClassVar[str] = "tensorize"
    axis: str
    intrinsic: str

    def apply(self, state: State) -> None:
        stage = state.stage(self.stage)
        stage.position(self.axis)
        stage.tensorized = (self.axis, find(self.intrinsic).name)


def _plain_loop(stage: StageState, axis: str, what: str) -> None:
    leaf = stage.leaf(axis)
    if leaf.loop != LoopKind.SERIAL:
        raise ScheduleError(f"{what}: loop '{axis}' of '{stage.name}' is {leaf.loop} already")
