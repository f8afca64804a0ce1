"""Expression + schedule -> loop program (TVM's ScheduleOps and storage flattening)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase

from tilewright.errors import ScheduleError
from tilewright.expr import (
    Expr,
    Read,
    Var,
    add,
    binary,
    const,
    floordiv,
    free_vars,
    logical_and,
    mod,
    mul,
    read,
    reads_of,
    substitute,
)
from tilewright.loops.affine import Bounds, from_linear, linear, rejoined
from tilewright.loops.ir import Allocate, Buffer, For, If, Kernel, LoopKind, Role, Stmt, Store, seq
from tilewright.loops.simplify import simplify
from tilewright.schedule.halo import halo_fill
from tilewright.schedule.intrinsics import find, prove
from tilewright.schedule.regions import Loops, Region, infer_region, loop_nest, whole
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import FuseRelation, Leaf, SplitRelation, StageState, State, is_reduction
from tilewright.storage import Storage
from tilewright.tensor.ir import Reduce, Tensor, identity_of, map_reads


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: its buffer, and the memory indices of a logical index."""

    buffer: Buffer
    storage: Storage
    starts: tuple[Expr, ...]
    lanes: int = 0  # of a register buffer: elements of one register

    def index(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Memory indices."""
        if self.lanes:
            *outer, last = (binary("sub", i, s) for i, s in zip(indices, self.starts, strict=True))
            lanes = const(self.lanes)
            return (*outer, binary("floordiv", last, lanes), binary("mod", last, lanes))
        relative = [
            i if s == const(0) else binary("sub", i, s) for i, s in zip(indices, self.starts, strict=True)
        ]
        return self.storage.index(relative)


def lower_schedule(
    schedule: Schedule,
    inputs: Sequence[tuple[Tensor, Storage]],
    outputs: Sequence[Storage],
    name: str = "kernel",
) -> Kernel:
    """The loop program of a schedule.

    inputs: placeholders in parameter order, each with its storage; outputs: storages of the schedule's
    outputs.
    Output halos are written with their fill. Raises ScheduleError when the schedule cannot be carried out.
    """
    return _Lowering(schedule.state, schedule.outputs).kernel(inputs, outputs, name)


class _Lowering:
    """Works on the schedule's own copies of the stages, so a schedule is lowered once."""

    def __init__(self, state: State, outputs: Sequence[Tensor]) -> None:
        self.state = state
        self.outputs = [state.stage(t.stage.name).stage.outputs[t.index] for t in outputs]
        self.places: dict[int, Place] = {}
        self.nests: dict[str, Loops] = {}
        _inline(state)
        self.live = [s for s in state.stages.values() if s.attach.how != "inline"]

    def kernel(
        self, inputs: Sequence[tuple[Tensor, Storage]], outputs: Sequence[Storage], name: str
    ) -> Kernel:
        params, roles = [], []
        ports = [(t, s, Role.IN) for t, s in inputs]
        ports += [(t, s, Role.OUT) for t, s in zip(self.outputs, outputs, strict=True)]
        for tensor, storage, role in ports:
            buffer = Buffer(tensor.name, tensor.dtype, storage.physical_shape(tensor.shape))
            self.places[id(tensor)] = Place(buffer, storage, tuple(const(0) for _ in tensor.shape))
            params.append(buffer)
            roles.append(role)
        self._infer()
        roots = [s for s in self.live if s.attach.how == "root"]
        body = seq(*(self._emit(s) for s in roots))
        for stage in roots:
            for tensor in stage.stage.outputs:
                place = self.places[id(tensor)]
                if place.buffer not in params:
                    body = Allocate(place.buffer, body)
        halos = [halo_fill(p, s) for p, (_, s, role) in zip(params, ports, strict=True) if role == Role.OUT]
        body = simplify(seq(*halos, body), Bounds())
        return Kernel(name, tuple(params), tuple(roles), body)

    def _infer(self) -> None:
        """Regions and loop nests, consumers before producers; then the buffers of intermediate stages."""
        for stage in reversed(self.live):
            region = whole(stage) if stage.attach.how == "root" else self._needed(stage)
            self.nests[stage.name] = loop_nest(stage, region)
            for tensor in stage.stage.outputs:
                if id(tensor) not in self.places:
                    self.places[id(tensor)] = self._local(stage, tensor, region)

    def _needed(self, stage: StageState) -> Region:
        consumer = self.state.stage(stage.attach.consumer)
        if consumer.name not in self.nests:
            raise ScheduleError(
                f"compute_at: '{stage.name}' is computed at '{consumer.name}', which comes before it"
            )
        readers = [s for s in self.live if any(t.stage is stage.stage for t in s.stage.inputs)]
        outside = [s.name for s in readers if not self._inside(s, consumer, stage.attach.axis)]
        if outside:
            raise ScheduleError(
                f"compute_at: '{stage.name}' is also read by {', '.join(outside)}, "
                f"outside of '{stage.attach.axis}'"
            )
        varying = self._inner_variables(consumer, stage.attach.axis)
        for reader in readers:
            if reader is not consumer:
                varying |= self._variables_up_to(reader, consumer, stage.attach.axis)
        return infer_region(stage, readers, self.nests, varying)

    def _inside(self, stage: StageState, consumer: StageState, axis: str) -> bool:
        """Whether the stage is computed inside loop `axis` of the consumer."""
        if stage is consumer:
            return True
        if stage.attach.how != "at":
            return False
        if stage.attach.consumer == consumer.name:
            return consumer.position(stage.attach.axis) >= consumer.position(axis)
        return self._inside(self.state.stage(stage.attach.consumer), consumer, axis)

    def _inner_variables(self, stage: StageState, axis: str) -> dict[str, int]:
        inner = stage.leaves[stage.position(axis) + 1 :]
        return {leaf.name: self.nests[stage.name].extents[leaf.name] for leaf in inner}

    def _variables_up_to(self, stage: StageState, consumer: StageState, axis: str) -> dict[str, int]:
        """Variables of all loops between a nested reader and the loop where the producer is attached."""
        varying = {leaf.name: self.nests[stage.name].extents[leaf.name] for leaf in stage.leaves}
        parent = self.state.stage(stage.attach.consumer)
        if parent is consumer:
            return varying
        return varying | self._variables_up_to(parent, consumer, axis)

    def _local(self, stage: StageState, tensor: Tensor, region: Region) -> Place:
        rank = len(region.extents)
        storage = self._register_storage(stage, rank) if stage.scope == "register" else _local_storage(stage)
        buffer = Buffer(tensor.name, tensor.dtype, storage.physical_shape(region.extents), stage.scope)
        return Place(buffer, storage, region.starts)

    def _register_storage(self, stage: StageState, rank: int) -> Storage:
        """Row-major, but the elements of one vector register stand together, innermost."""
        vector = next((leaf.name for leaf in stage.leaves if leaf.loop == LoopKind.VECTORIZED), None)
        letters = ascii_lowercase[:rank]
        if vector is None or not rank:
            return Storage()
        letter = letters[[a.name for a in stage.stage.axes].index(_root_axis(stage, vector))]
        lanes = self.nests[stage.name].extents[vector]
        return Storage(f"{letters.replace(letter, letter.upper())}{lanes}{letter}")

    def _emit(self, stage: StageState) -> Stmt:
        """The loop nest of a stage, with the stages attached to it inside."""
        nest = self.nests[stage.name]
        if stage.padded:
            self._prove_padding(stage, nest)
        first_reduce = next((i for i, leaf in enumerate(stage.leaves) if leaf.kind == "reduce"), None)
        init: Stmt | None = None
        if is_reduction(stage):
            assert first_reduce is not None
            _refuse_second_sums(stage, nest, first_reduce)
            init = self._init(stage, nest, stage.leaves[first_reduce:])
        return self._loops(stage, nest, 0, first_reduce, init)

    def _loops(
        self, stage: StageState, nest: Loops, depth: int, first_reduce: int | None, init: Stmt | None
    ) -> Stmt:
        if depth == len(stage.leaves):
            return _guarded(nest.guards, self._stores(stage, nest))
        leaf = stage.leaves[depth]
        inner = self._loops(stage, nest, depth + 1, first_reduce, init)
        inner = self._attached(stage, leaf.name, inner)
        loop = _loop(leaf, leaf.name, nest.extents[leaf.name], inner)
        if stage.tensorized is not None and stage.tensorized[0] == leaf.name:
            prove(stage, nest, self._flat)
            loop = replace(loop, intrinsic=stage.tensorized[1])
        return seq(init, loop) if depth == first_reduce else loop

    def _flat(self, tensor: Tensor, indices: Sequence[Expr]) -> Expr:
        """The flat index in memory of an element."""
        place = self.places[id(tensor)]
        flat: Expr = const(0)
        for index, extent in zip(place.index(indices), place.buffer.shape, strict=True):
            flat = add(mul(flat, const(extent)), index)
        return from_linear(rejoined(linear(self._bounds().simplify(flat))))

    def _bounds(self) -> Bounds:
        """Ranges of the variables of all loops."""
        return Bounds({name: (0, n - 1) for nest in self.nests.values() for name, n in nest.extents.items()})

    def _prove_padding(self, stage: StageState, nest: Loops) -> None:
        """What elements past the end are computed from is memory of its operand, or ScheduleError."""
        bounds = self._bounds()
        moving = set().union(*(free_vars(nest.values[axis]) for axis in stage.padded))
        values = [
            v for body in stage.stage.bodies for v in (body.values if isinstance(body, Reduce) else [body])
        ]
        for e in (e for value in values for e in reads_of(value)):
            place = self.places[id(e.source)]
            indices = place.index([substitute(i, nest.values) for i in e.indices])
            for index, extent in zip(map(bounds.simplify, indices), place.buffer.shape, strict=True):
                low, high = bounds.of(index)
                if free_vars(index) & moving and (low < 0 or high >= extent):
                    axes = ", ".join(f"{axis} {factor}" for axis, factor in stage.padded.items())
                    raise ScheduleError(
                        f"pad {stage.name} {axes}: '{e.source.name}' would be read at {low} to {high}, "
                        f"outside of its {extent} elements"
                    )

    def _carried(self, place: Place, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Memory indices of an element of a flattened stage: what is past the end of a row is in the next.

        Raises ScheduleError when that is not memory of the operand.
        """
        bounds, shape = self._bounds(), place.buffer.shape
        found = [bounds.simplify(index) for index in place.index(indices)]
        for at in range(len(found) - 1, -1, -1):
            low, high = bounds.of(found[at])
            if low >= 0 and high < shape[at]:
                continue
            if not at:
                raise ScheduleError(
                    f"flatten: '{place.buffer.name}' would be read at {low} to {high}, outside of its "
                    f"{shape[at]} elements"
                )
            row = const(shape[at])
            flat = from_linear(rejoined(linear(bounds.simplify(add(mul(found[at - 1], row), found[at])))))
            found[at - 1], found[at] = (bounds.simplify(part(flat, row)) for part in (floordiv, mod))
        return tuple(found)

    def _attached(self, stage: StageState, axis: str, inner: Stmt) -> Stmt:
        here = [
            s
            for s in self.live
            if (s.attach.how, s.attach.consumer, s.attach.axis) == ("at", stage.name, axis)
        ]
        body = seq(*(self._emit(s) for s in here), inner)
        for child in here:
            for tensor in child.stage.outputs:
                body = Allocate(self.places[id(tensor)].buffer, body)
        return body

    def _stores(self, stage: StageState, nest: Loops) -> Stmt:
        axes = [nest.values[a.name] for a in stage.stage.axes]
        values = dict(nest.values)
        bodies = [self._placed(stage, body, values) for body in stage.stage.bodies]
        stores = []
        targets = [(t, self.places[id(t)]) for t in stage.stage.outputs]
        if is_reduction(stage):
            reduction = stage.stage.bodies[0]
            assert isinstance(reduction, Reduce)
            old = tuple(read(p.buffer, p.index(axes)) for _, p in targets)
            new = tuple(self._placed(stage, v, values) for v in reduction.values)
            bodies = list(reduction.reducer.combine(old, new))
        for (_, place), body in zip(targets, bodies, strict=True):
            stores.append(Store(place.buffer, place.index(axes), body))
        return seq(*stores)

    def _placed(self, stage: StageState, body: Expr, values: dict[str, Expr]) -> Expr:
        def rule(e: Expr) -> Expr | None:
            if isinstance(e, Read):
                place = self.places[id(e.source)]
                indices = self._carried(place, e.indices) if stage.flattened else place.index(e.indices)
                return Read(place.buffer, indices, e.dtype)
            return None

        return map_reads(substitute(body, values), rule)

    def _init(self, stage: StageState, nest: Loops, leaves: list[Leaf]) -> Stmt:
        """Stores of the identities, over the data loops that lie inside the first reduce loop."""
        inner = [leaf for leaf in leaves if leaf.kind == "data"]
        renamed: dict[str, Expr] = {leaf.name: Var(f"{leaf.name}.init") for leaf in inner}
        renamed |= {leaf.name: const(0) for leaf in leaves if leaf.kind == "reduce"}
        axes = [substitute(nest.values[a.name], renamed) for a in stage.stage.axes]
        stores = []
        for tensor, body in zip(stage.stage.outputs, stage.stage.bodies, strict=True):
            assert isinstance(body, Reduce)
            place = self.places[id(tensor)]
            stores.append(Store(place.buffer, place.index(axes), identity_of(body)))
        guards = tuple(substitute(g, renamed) for g in nest.guards)
        result = _guarded(guards, seq(*stores))
        axis, intrinsic = stage.tensorized or ("", "")
        for leaf in reversed(inner):
            result = _loop(leaf, f"{leaf.name}.init", nest.extents[leaf.name], result)
            if leaf.name == axis:
                result = replace(result, intrinsic=find(intrinsic).reset)
        return result


def _refuse_second_sums(stage: StageState, nest: Loops, first_reduce: int) -> None:
    """Raises ScheduleError where sums that two overlapping blocks hold would grow in both: their loop is
    inside of a reduce loop, or threads share its turns.
    """
    for at, relation in enumerate(stage.relations):
        if not isinstance(relation, SplitRelation) or not relation.overlapping:
            continue
        if not nest.extents[relation.parent] % nest.extents[relation.inner]:
            continue
        parts = {relation.outer}
        for later in stage.relations[at + 1 :]:
            if isinstance(later, SplitRelation) and later.parent in parts:
                parts |= {later.outer, later.inner}
            elif isinstance(later, FuseRelation) and {later.outer, later.inner} & parts:
                parts.add(later.fused)
        for position, leaf in enumerate(stage.leaves):
            shared = leaf.loop in (LoopKind.PARALLEL, LoopKind.BOUND)
            if leaf.name in parts and (shared or position > first_reduce):
                where = "shared by threads" if shared else "inside of a reduce loop"
                raise ScheduleError(
                    f"overlap: '{leaf.name}' of '{stage.name}' is {where}: sums that two blocks hold would "
                    f"grow twice"
                )


def _local_storage(stage: StageState) -> Storage:
    """Row-major, but what an intrinsic wants to be contiguous is innermost."""
    if stage.tensorized is None:
        return Storage()
    last = [leaf for leaf in stage.leaves[stage.position(stage.tensorized[0]) :] if leaf.kind == "data"][-1]
    axes = [a.name for a in stage.stage.axes]
    letter = ascii_lowercase[axes.index(_root_axis(stage, last.name))]
    return Storage(ascii_lowercase[: len(axes)].replace(letter, "") + letter)


def _root_axis(stage: StageState, leaf: str) -> str:
    """The axis of the expression that a loop comes from; of a fused loop, the inner one."""
    for relation in reversed(stage.relations):
        if isinstance(relation, SplitRelation) and leaf in (relation.outer, relation.inner):
            leaf = relation.parent
        elif isinstance(relation, FuseRelation) and leaf == relation.fused:
            leaf = relation.inner
    return leaf


def _loop(leaf: Leaf, name: str, extent: int, body: Stmt) -> For:
    return For(Var(name), const(extent), body, leaf.loop, thread=leaf.thread)


def _guarded(guards: Sequence[Expr], stmt: Stmt) -> Stmt:
    return If(logical_and(*guards), stmt) if guards else stmt


def inlined_bodies(schedule: Schedule, stage: str) -> tuple[Expr, ...]:
    """The bodies of a stage as they will be lowered, inlined stages in place; the schedule is left alone."""
    state = Schedule(schedule.outputs, schedule.steps).state
    _inline(state)
    return state.stage(stage).stage.bodies


def _inline(state: State) -> None:
    """Put the bodies of inlined stages in place of their reads, producers first."""
    for producer in state.stages.values():
        if producer.attach.how != "inline":
            continue
        axes = [a.name for a in producer.stage.axes]
        bodies = {id(t): b for t, b in zip(producer.stage.outputs, producer.stage.bodies, strict=True)}

        def rule(e: Expr, bodies: dict[int, Expr] = bodies, axes: list[str] = axes) -> Expr | None:
            body = bodies.get(id(e.source)) if isinstance(e, Read) else None
            if body is None:
                return None
            return substitute(body, dict(zip(axes, e.indices, strict=True)))  # type: ignore[attr-defined]

        for consumer in state.consumers(producer.name):
            consumer.stage.bodies = tuple(map_reads(body, rule) for body in consumer.stage.bodies)
