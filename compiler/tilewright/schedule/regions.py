"""Bound inference: which part of a stage must be computed where it is attached (TVM's InferBound).

A stage computed at a loop of its consumer is needed only for the indices that the consumer reads during one
turn of that loop. Everything outside the loop is fixed there; everything inside varies over its range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.expr import (
    Binary,
    Const,
    Expr,
    Read,
    Var,
    add,
    children,
    const,
    floordiv,
    minimum,
    mod,
    mul,
    reads_of,
    substitute,
)
from tilewright.loops.affine import Bounds, Linear, from_linear, linear
from tilewright.schedule.state import SplitRelation, StageState
from tilewright.tensor.ir import Reduce, Tensor


@dataclass(frozen=True)
class Region:
    """Per axis of a stage: the first index, as an expression over outer loops, and how many."""

    starts: tuple[Expr, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Loops:
    """The loop nest of one stage: extents of its leaves, and each of its axes in terms of their variables.

    values: axis name -> index (region start included); relative: the same from 0, what guards compare with
    extents;
    guards: conditions that hold exactly for the wanted iterations.
    """

    extents: Mapping[str, int]
    values: Mapping[str, Expr]
    relative: Mapping[str, Expr]
    guards: tuple[Expr, ...]


def whole(state: StageState) -> Region:
    """The region of a stage at root."""
    axes = state.stage.axes
    extents = (padded(state, axis.name, axis.extent) for axis in axes)
    return Region(tuple(const(0) for _ in axes), tuple(extents))


def padded(state: StageState, axis: str, extent: int) -> int:
    """An extent along an axis, rounded up where the stage is padded."""
    factor = state.padded.get(axis, 1)
    return -(-extent // factor) * factor


def loop_nest(state: StageState, region: Region) -> Loops:
    """Extents and axis values of a stage that computes the given region."""
    extents: dict[str, int] = {}
    starts: dict[str, Expr] = {}
    limits: dict[str, int] = {}
    for axis, start, extent in zip(state.stage.axes, region.starts, region.extents, strict=True):
        extents[axis.name], starts[axis.name] = extent, start
        limits[axis.name] = padded(state, axis.name, axis.extent)
    for axis in state.stage.reduce_axes:
        extents[axis.name], starts[axis.name], limits[axis.name] = axis.extent, const(0), axis.extent
    for relation in state.relations:
        if isinstance(relation, SplitRelation):
            parent = extents[relation.parent]
            extents[relation.inner] = min(relation.factor, parent) if parent else relation.factor
            extents[relation.outer] = -(-parent // relation.factor)
        else:
            extents[relation.fused] = extents[relation.outer] * extents[relation.inner]
    relative = _relative_values(state, extents)
    guards = [relative[name] < const(extents[name]) for name in _inexact(state, extents)]
    values = {name: add(starts[name], relative[name]) for name in starts}
    for name, start in starts.items():
        if start != const(0):  # a region may hang over the edges of the tensor
            guards += [values[name] < const(limits[name]), values[name] >= const(0)]
    return Loops(extents, values, relative, tuple(guards))


def _relative_values(state: StageState, extents: Mapping[str, int]) -> dict[str, Expr]:
    values: dict[str, Expr] = {leaf.name: Var(leaf.name) for leaf in state.leaves}
    for relation in reversed(state.relations):
        if isinstance(relation, SplitRelation):
            outer = mul(values[relation.outer], const(relation.factor))
            if relation.overlapping:
                last = extents[relation.parent] - extents[relation.inner]
                outer = minimum(outer, const(last))
            values[relation.parent] = add(outer, values[relation.inner])
        else:
            inner = const(extents[relation.inner])
            values[relation.outer] = floordiv(values[relation.fused], inner)
            values[relation.inner] = mod(values[relation.fused], inner)
    return values


def _inexact(state: StageState, extents: Mapping[str, int]) -> list[str]:
    splits = [r for r in state.relations if isinstance(r, SplitRelation) and not r.overlapping]
    return [r.parent for r in splits if extents[r.parent] % r.factor and extents[r.parent] > r.factor]


def infer_region(
    producer: StageState,
    consumers: Sequence[StageState],
    nests: Mapping[str, Loops],
    varying: Mapping[str, int],
) -> Region:
    """What the consumers read of the producer in one turn of the loop where it is attached.

    varying: variables that run inside that loop, with their extents; all others are fixed. Raises
    ScheduleError when nothing reads it.
    """
    bounds = Bounds({name: (0, extent - 1) for name, extent in varying.items()})
    boxes: list[list[tuple[Linear, int] | None]] = []
    for consumer in consumers:
        values = dict(nests[consumer.name].values)
        for read in _reads(consumer, producer.stage.outputs):
            boxes.append(
                [_box(bounds.simplify(substitute(i, values)), bounds, varying) for i in read.indices]
            )
    if not boxes:
        raise ScheduleError(f"stage '{producer.name}' is attached where nothing reads it")
    starts: list[Expr] = []
    extents: list[int] = []
    for axis, parts in zip(producer.stage.axes, zip(*boxes, strict=True), strict=True):
        start, extent = _union(list(parts), axis.extent)
        starts.append(start)
        extents.append(padded(producer, axis.name, extent))
    return Region(tuple(starts), tuple(extents))


def _reads(consumer: StageState, tensors: Sequence[Tensor]) -> list[Read]:
    wanted = set(map(id, tensors))
    found: list[Read] = []
    for body in consumer.stage.bodies:
        for value in body.values if isinstance(body, Reduce) else (body,):
            found += [r for r in reads_of(value) if id(r.source) in wanted]
    return found


def _box(index: Expr, bounds: Bounds, varying: Mapping[str, int]) -> tuple[Linear, int] | None:
    """(first index, number of indices) when the variables vary; None when it cannot be told."""
    form = linear(index)
    fixed: dict[Expr, int] = {}
    low = high = form.constant
    for atom, coefficient in form.terms.items():
        if not _varies(atom, varying):
            fixed[atom] = coefficient
            continue
        span = _span(atom, bounds, varying)
        if span is None:
            return None
        start, a, b = span
        for inner, c in start.items():
            fixed[inner] = fixed.get(inner, 0) + coefficient * c
        low += coefficient * (a if coefficient > 0 else b)
        high += coefficient * (b if coefficient > 0 else a)
    return Linear({a: c for a, c in fixed.items() if c}, low), high - low + 1


def _span(atom: Expr, bounds: Bounds, varying: Mapping[str, int]) -> tuple[dict[Expr, int], int, int] | None:
    """atom as fixed terms plus a range."""
    low, high = bounds.of(atom)
    if abs(low) != float("inf") and abs(high) != float("inf"):
        return {}, int(low), int(high)
    divides = isinstance(atom, Binary) and atom.op == "floordiv" and isinstance(atom.b, Const)
    if not divides:
        return None
    assert isinstance(atom, Binary)
    assert isinstance(atom.b, Const)
    box = _box(atom.a, bounds, varying)
    if box is None:
        return None
    start, extent = box
    first = floordiv(from_linear(start), atom.b)
    return {first: 1}, 0, (extent - 1 + int(atom.b.value) - 1) // int(atom.b.value)


def _varies(e: Expr, varying: Mapping[str, int]) -> bool:
    if isinstance(e, Var):
        return e.name in varying
    if isinstance(e, Read):
        return True
    return any(_varies(part, varying) for part in children(e))


def _union(parts: list[tuple[Linear, int] | None], limit: int) -> tuple[Expr, int]:
    """The smallest box around all parts, the whole axis when that is not known or not smaller."""
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return const(0), limit
    first = known[0][0]
    low, high = 0, known[0][1]
    for start, extent in known[1:]:
        difference = start.plus(first, -1)
        if not difference.is_constant:
            return const(0), limit
        low, high = min(low, difference.constant), max(high, difference.constant + extent)
    if high - low >= limit:
        return const(0), limit
    return from_linear(Linear(first.terms, first.constant + low)), high - low
