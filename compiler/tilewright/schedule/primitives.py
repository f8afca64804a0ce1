"""Schedule primitives, each an application as data: frozen, printable, replayable.

`apply` proves that the primitive is legal where it stands, or raises ScheduleError saying what was expected
and what was found. The field names are the arguments of the text form, e.g. `split conv conv.i3 16`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tilewright.errors import ScheduleError
from tilewright.expr import Expr, Read, add, const, floordiv, mod, mul, select, substitute
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
    new_leaves,
    redirect,
    rename_axes,
)
from tilewright.tensor.ir import Axis, Reduce, Stage, Tensor, identity_of, map_reads


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
class Flatten(Primitive):
    """Two neighbouring data axes of the expression become one, on which rows start `pitch` elements apart.

    for i in 0..n                        ->   for p in 0..(n - 1) * pitch + m
      for j in 0..m: t[i, j] = f(i, j)          t[p] = f(p // pitch, p % pitch)
    y[..] = t[a, b]                           y[..] = t[a * pitch + b]

    Where a row of an operand in memory is `pitch` steps long, neighbours along p have one distance, from row
    to row too. Nobody reads the elements between rows. They are computed from the memory that their index
    comes to; lowering proves that this is memory of the operand.
    """

    keyword: ClassVar[str] = "flatten"
    outer: str
    inner: str
    pitch: int

    @property
    def name(self) -> str:
        return f"{self.outer}*{self.inner}"

    def apply(self, state: State) -> None:
        target = state.stage(self.stage)
        stage, readers = target.stage, state.consumers(self.stage)
        names = [axis.name for axis in stage.axes]
        if self.stage in state.outputs:
            raise ScheduleError(f"flatten: '{self.stage}' is an output, which has no room between its rows")
        if target.relations or target.padded or any(leaf.loop != LoopKind.SERIAL for leaf in target.leaves):
            raise ScheduleError(f"flatten: must come before other primitives of '{self.stage}'")
        at = names.index(self.outer) if self.outer in names else len(names)
        if names[at + 1 : at + 2] != [self.inner] or self.pitch < stage.axes[at + 1].extent:
            raise ScheduleError(
                f"flatten: expected two neighbouring data axes of '{self.stage}' ({', '.join(names)}) and a "
                f"pitch that holds a row, found {self.outer}, {self.inner} and {self.pitch}"
            )
        rows, row = stage.axes[at : at + 2]
        flat = Axis(self.name, (rows.extent - 1) * self.pitch + row.extent)
        pitch = const(self.pitch)
        bindings = {rows.name: floordiv(flat.var, pitch), row.name: mod(flat.var, pitch)}
        kept = {axis.name: axis for axis in stage.reduce_axes}
        stage.bodies = tuple(_rebind(body, bindings, kept) for body in stage.bodies)
        stage.axes = (*stage.axes[:at], flat, *stage.axes[at + 2 :])

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Read) or e.source not in stage.outputs:
                return None
            place = add(mul(e.indices[at], pitch), e.indices[at + 1])
            return Read(e.source, (*e.indices[:at], place, *e.indices[at + 2 :]), e.dtype)

        for reader in readers:
            reader.stage.bodies = tuple(map_reads(body, rule) for body in reader.stage.bodies)
        target.leaves = new_leaves(stage)
        target.flattened = True


@dataclass(frozen=True)
class CacheWrite(Primitive):
    """A new stage `NAME.SCOPE` computes the values in a faster memory; the stage itself only copies them.

    c[i] = f(i)     ->    c.register[i] = f(i);  c[i] = c.register[i]
    """

    keyword: ClassVar[str] = "cache_write"
    scope: str

    @property
    def name(self) -> str:
        return f"{self.stage}.{self.scope}"

    def apply(self, state: State) -> None:
        target = state.stage(self.stage)
        if target.relations or any(leaf.loop != LoopKind.SERIAL for leaf in target.leaves):
            raise ScheduleError(f"cache_write: must come before other primitives of '{self.stage}'")
        stage = target.stage
        renamed = rename_axes(self.name, (*stage.axes, *stage.reduce_axes))
        cached = Stage(self.name, tuple(renamed[a.name] for a in stage.axes), (), stage.dtypes)
        cached.outputs = tuple(Tensor(cached, i) for i in range(len(stage.dtypes)))
        bindings: dict[str, Expr] = {old: axis.var for old, axis in renamed.items()}
        cached.bodies = tuple(_rebind(body, bindings, renamed) for body in stage.bodies)
        state.insert_before(
            self.stage, StageState(cached, new_leaves(cached), scope=self.scope, flattened=target.flattened)
        )
        stage.bodies = tuple(cached.outputs[i][tuple(stage.axes)] for i in range(len(stage.dtypes)))
        target.leaves = new_leaves(stage)


@dataclass(frozen=True)
class CacheRead(Primitive):
    """A new stage `TENSOR.SCOPE` holds a copy of what the readers read; they read the copy.

    c[i] = a[i] + 1     ->    a.shared[i] = a[i];  c[i] = a.shared[i] + 1
    """

    keyword: ClassVar[str] = "cache_read"
    scope: str
    readers: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.stage}.{self.scope}"

    def apply(self, state: State) -> None:
        if self.stage in state.placeholders:
            tensor = state.placeholders[self.stage]
        else:
            outputs = state.stage(self.stage).stage.outputs
            if len(outputs) != 1:
                raise ScheduleError(
                    f"cache_read: '{self.stage}' has {len(outputs)} outputs; name one with one output"
                )
            tensor = outputs[0]
        reading = {s.name for s in state.consumers(self.stage)}
        missing = [name for name in self.readers if name not in reading]
        if missing or not self.readers:
            raise ScheduleError(f"cache_read: {', '.join(missing) or 'nobody'} does not read '{self.stage}'")
        renamed = rename_axes(self.name, tensor.stage.axes)
        axes = tuple(renamed[a.name] for a in tensor.stage.axes)
        copy = Stage(self.name, axes, (tensor[axes],), (tensor.dtype,))
        copy.outputs = (Tensor(copy),)
        first = next(name for name in state.stages if name in self.readers)
        state.insert_before(first, StageState(copy, new_leaves(copy), scope=self.scope))
        for name in self.readers:
            stage = state.stage(name).stage
            stage.bodies = tuple(
                redirect(body, lambda t: copy.outputs[0] if t is tensor else t) for body in stage.bodies
            )


@dataclass(frozen=True)
class Rfactor(Primitive):
    """Partial sums: a new stage `NAME.rf` sums blocks of the terms, the stage itself sums the blocks.

    The axes `outer` and the blocks of `factor` turns of `axis` become data axes of the new stage, in front.
    Sums of blocks are more accurate than one long sum, and blocks can be computed apart.

        c = sum(f(k) for k in 0..n)   ->   c.rf[b] = sum(f(b * factor + k) for k in 0..factor)
                                           c = sum(c.rf[b] for b in 0..ceil(n / factor))
    """

    keyword: ClassVar[str] = "rfactor"
    outer: tuple[str, ...]
    axis: str
    factor: int

    @property
    def name(self) -> str:
        return f"{self.stage}.rf"

    def apply(self, state: State) -> None:
        target = state.stage(self.stage)
        stage = target.stage
        if not is_reduction(target) or len(stage.bodies) != 1:
            raise ScheduleError(f"rfactor: '{self.stage}' must be a reduction of one value")
        if target.relations or any(leaf.loop != LoopKind.SERIAL for leaf in target.leaves):
            raise ScheduleError(f"rfactor: must come before other primitives of '{self.stage}'")
        by_name = {a.name: a for a in stage.reduce_axes}
        unknown = [name for name in (*self.outer, self.axis) if name not in by_name]
        if unknown or self.axis in self.outer or self.factor < 1:
            raise ScheduleError(
                f"rfactor: expected reduce axes of '{self.stage}' ({', '.join(by_name)}) "
                f"and a positive factor, found {', '.join((*self.outer, self.axis))} and {self.factor}"
            )
        body = stage.bodies[0]
        assert isinstance(body, Reduce)
        blocks = [by_name[name] for name in self.outer]
        blocked = by_name[self.axis]
        count = -(-blocked.extent // self.factor)
        chunk = Axis(f"{blocked.name}.block", count, "reduce")
        partial = self._partial(stage, body, blocks, blocked, count)
        state.insert_before(self.stage, StageState(partial, new_leaves(partial), flattened=target.flattened))
        total = partial.outputs[0][(*blocks, chunk, *stage.axes)]
        stage.bodies = (Reduce(body.reducer, (total,), (*blocks, chunk), 0, body.dtype),)
        target.leaves = new_leaves(stage)

    def _partial(self, stage: Stage, body: Reduce, blocks: list[Axis], blocked: Axis, count: int) -> Stage:
        """The stage of the blocks' sums: axes are blocks, block of `axis`, then those of the stage."""
        kept = [a for a in body.axes if a not in blocks and a != blocked]
        first = len(stage.axes)  # a stage factored twice has axes b2, b3, ...
        leading = [Axis(f"{self.name}.b{i}", a.extent) for i, a in enumerate([*blocks, blocked], first)]
        leading[-1] = Axis(leading[-1].name, count)
        data = rename_axes(self.name, stage.axes)
        reduced = rename_axes(self.name, [*kept, blocked])
        inner = Axis(reduced[blocked.name].name, min(self.factor, blocked.extent), "reduce")
        position = leading[-1].var * self.factor + inner.var
        bindings: dict[str, Expr] = {old: axis.var for old, axis in (data | reduced).items()}
        bindings |= {a.name: axis.var for a, axis in zip(blocks, leading, strict=False)}
        bindings[blocked.name] = position
        value = substitute(body.values[0], bindings)
        if blocked.extent % inner.extent:
            value = select(position < blocked.extent, value, identity_of(body))
        axes = (*leading, *(data[a.name] for a in stage.axes))
        partial = Stage(self.name, axes, (), stage.dtypes)
        partial.outputs = (Tensor(partial),)
        order = tuple(inner if a == blocked else reduced[a.name] for a in body.axes if a not in blocks)
        partial.bodies = (Reduce(body.reducer, (value,), order, 0, body.dtype),)
        return partial


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


PRIMITIVES: dict[str, type[Primitive]] = {
    p.keyword: p
    for p in (
        *(Split, Overlap, Fuse, Reorder, Unroll, Vectorize, Parallel, Bind, ComputeInline, ComputeAt),
        *(SetScope, Pad, Flatten, CacheWrite, CacheRead, Rfactor, Tensorize),
    )
}


def _plain_loop(stage: StageState, axis: str, what: str) -> None:
    leaf = stage.leaf(axis)
    if leaf.loop != LoopKind.SERIAL:
        raise ScheduleError(f"{what}: loop '{axis}' of '{stage.name}' is {leaf.loop} already")


def _rebind(body: Expr, bindings: Mapping[str, Expr], renamed: Mapping[str, Axis]) -> Expr:
    if isinstance(body, Reduce):
        values = tuple(substitute(v, bindings) for v in body.values)
        axes = tuple(renamed[a.name] for a in body.axes)
        return Reduce(body.reducer, values, axes, body.index, body.dtype)
    return substitute(body, bindings)
