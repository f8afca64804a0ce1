"""What a schedule has decided so far: for every stage its loops, where it is computed and where its result
lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.errors import ScheduleError
from tilewright.expr import Expr, Read
from tilewright.loops.ir import LoopKind
from tilewright.tensor.ir import Axis, Reduce, Stage, Tensor, map_reads, stages_of


@dataclass(frozen=True)
class SplitRelation:
    """parent = outer * factor + inner; the last block ends at the end of parent where blocks overlap."""

    parent: str
    outer: str
    inner: str
    factor: int
    overlapping: bool = False


@dataclass(frozen=True)
class FuseRelation:
    """fused = outer * extent(inner) + inner."""

    outer: str
    inner: str
    fused: str


@dataclass
class Leaf:
    """A loop of a stage. kind of axis: data or reduce; loop: how it runs; thread: device index of a bound
    loop.
    """

    name: str
    kind: str
    loop: LoopKind = LoopKind.SERIAL
    thread: str = ""


@dataclass(frozen=True)
class Attach:
    """Where a stage is computed. how: root, inline, or at (inside the loop `axis` of stage `consumer`)."""

    how: str = "root"
    consumer: str = ""
    axis: str = ""


@dataclass
class StageState:
    """stage: a private copy of the expression's stage; leaves: its loops, outermost first; padded: by axis,
    what the number of computed elements is rounded up to a multiple of; flattened: whether elements that
    nobody reads are computed from what lies in memory, see Flatten.
    """

    stage: Stage
    leaves: list[Leaf]
    relations: list[SplitRelation | FuseRelation] = field(default_factory=list)
    attach: Attach = field(default=Attach())
    scope: str = "local"
    tensorized: tuple[str, str] | None = None  # (axis, intrinsic)
    padded: dict[str, int] = field(default_factory=dict)
    flattened: bool = False

    @property
    def name(self) -> str:
        return self.stage.name

    def position(self, axis: str) -> int:
        """Index of a loop. Raises ScheduleError naming the loops that there are."""
        for index, leaf in enumerate(self.leaves):
            if leaf.name == axis:
                return index
        known = ", ".join(leaf.name for leaf in self.leaves)
        raise ScheduleError(f"stage '{self.name}' has no loop '{axis}'; its loops are {known}")

    def leaf(self, axis: str) -> Leaf:
        return self.leaves[self.position(axis)]


def new_leaves(stage: Stage) -> list[Leaf]:
    """The loops of a stage before any primitive: its axes in order, then the axes it reduces over."""
    return [Leaf(axis.name, axis.kind) for axis in (*stage.axes, *stage.reduce_axes)]


@dataclass
class State:
    """All stages by name, producers first."""

    stages: dict[str, StageState]
    outputs: tuple[str, ...]
    placeholders: dict[str, Tensor]

    @staticmethod
    def start(outputs: Sequence[Tensor]) -> State:
        """Copies of the outputs' stages; placeholders are shared. Stage names must be unique."""
        copies: dict[int, Stage] = {}
        placeholders: dict[str, Tensor] = {}
        states: dict[str, StageState] = {}
        for stage in stages_of(outputs):
            if stage.name in states or stage.name in placeholders:
                raise ScheduleError(f"two stages are called '{stage.name}'; rename one")
            if stage.is_placeholder:
                placeholders[stage.name] = stage.outputs[0]
                continue
            copies[id(stage)] = copy = _copy(stage, copies)
            states[copy.name] = StageState(copy, new_leaves(copy))
        return State(states, tuple(dict.fromkeys(t.stage.name for t in outputs)), placeholders)

    def stage(self, name: str) -> StageState:
        """A stage by name. Raises ScheduleError naming the stages that there are."""
        if name not in self.stages:
            raise ScheduleError(f"there is no stage '{name}'; stages are {', '.join(self.stages)}")
        return self.stages[name]

    def consumers(self, name: str) -> list[StageState]:
        """Stages that read an output of the stage."""
        stage = self.stages[name].stage if name in self.stages else None
        tensors = set(map(id, stage.outputs)) if stage else {id(self.placeholders[name])}
        return [s for s in self.stages.values() if any(id(t) in tensors for t in s.stage.inputs)]

    def insert_before(self, anchor: str, new: StageState) -> None:
        """Add a stage in front of another in the order of stages. Its name must be new."""
        if new.name in self.stages:
            raise ScheduleError(f"there is a stage '{new.name}' already")
        items = list(self.stages.items())
        index = [name for name, _ in items].index(anchor)
        self.stages = dict([*items[:index], (new.name, new), *items[index:]])


def _copy(stage: Stage, copies: dict[int, Stage]) -> Stage:
    copy = Stage(stage.name, stage.axes, (), stage.dtypes)
    copy.outputs = tuple(Tensor(copy, i) for i in range(len(stage.dtypes)))
    copy.bodies = tuple(redirect(body, lambda t: _counterpart(t, copies)) for body in stage.bodies)
    return copy


def _counterpart(tensor: Tensor, copies: dict[int, Stage]) -> Tensor:
    copy = copies.get(id(tensor.stage))
    return tensor if copy is None else copy.outputs[tensor.index]


def redirect(body: Expr, to: object) -> Expr:
    """The body with every read's tensor replaced by `to(tensor)`."""

    def rule(e: Expr) -> Expr | None:
        return Read(to(e.source), e.indices, e.dtype) if isinstance(e, Read) else None  # type: ignore[operator]

    return map_reads(body, rule)


def rename_axes(stage_name: str, axes: Sequence[Axis]) -> dict[str, Axis]:
    """New axes for a copied stage: `old.i0` becomes `stage_name.i0`."""
    return {a.name: Axis(f"{stage_name}.{a.name.rsplit('.', 1)[-1]}", a.extent, a.kind) for a in axes}


def is_reduction(state: StageState) -> bool:
    return isinstance(state.stage.bodies[0], Reduce)
