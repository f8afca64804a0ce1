"""Scan: its body runs along an axis of some operands; in opset 8 once for each element of a batch as well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Body, Site
from tilewright.graph.ir import Placeholder, Value
from tilewright.ops.control import with_bodies
from tilewright.ops.operator import Builder
from tilewright.types import TensorType


@importer("Scan", 9, 11, 16, 19, 21, 23, 24, 25)
def scan(site: Site) -> Sequence[Value]:
    """Slices come from any axis, in either direction, and so do the stacked results go."""
    scans = site.attr("num_scan_inputs")
    states, sources = _operands(site, 0, scans)
    axes = _numbers(site, "scan_input_axes", scans)
    flips = _flags(site, "scan_input_directions", scans)
    stacked = _stacked(site, len(states))
    out_axes = _numbers(site, "scan_output_axes", stacked)
    out_flips = _flags(site, "scan_output_directions", stacked)
    moved = [_to_front(site, value, axis) for value, axis in zip(sources, axes, strict=True)]
    backwards = all((*flips, *out_flips))
    if not backwards:
        moved = [_flipped(site, v) if flip else v for v, flip in zip(moved, flips, strict=True)]
    results = _run(site, states, moved, backwards)
    finals, stacks = results[: len(states)], results[len(states) :]
    if not backwards:
        stacks = [_flipped(site, v) if flip else v for v, flip in zip(stacks, out_flips, strict=True)]
    return [*finals, *(_from_front(site, v, axis) for v, axis in zip(stacks, out_axes, strict=True))]


@importer("Scan", 8)
def scan_batched(site: Site) -> Sequence[Value]:
    """Every operand has a batch axis in front, then the axis of steps; sequences may end early."""
    scans = site.attr("num_scan_inputs")
    states, sources = _operands(site, 1, scans)
    flips = _flags(site, "directions", scans)
    batch = {value.shape[:1] for value in (*states, *sources)}
    if len(batch) != 1 or batch & {(), (0,)}:
        raise site.fail("its operands have no common batch axis in front")
    if site.has(0) and any(flips):
        raise site.fail("sequences that end early are supported forwards only")
    rows = [_row(site, states, sources, flips, number) for number in range(batch.pop()[0])]
    columns = zip(*rows, strict=True)
    return [_stack(site, column) for column in columns]


def _row(
    site: Site, states: Sequence[Value], sources: Sequence[Value], flips: Sequence[bool], number: int
) -> list[Value]:
    """The results for one element of the batch."""
    given = [_element(site, value, number) for value in states]
    slices = [_element(site, value, number) for value in sources]
    slices = [_flipped(site, value) if flip else value for value, flip in zip(slices, flips, strict=True)]
    if not site.has(0):
        return _run(site, given, slices, False)
    lengths = site.operand(0)
    steps = site.constant(np.arange(slices[0].shape[0] if slices[0].shape else 0, dtype=lengths.dtype.numpy))
    running = site.emit("Less", steps, _element(site, lengths, number))
    return _run(site, given, slices, False, running)


def _operands(site: Site, first: int, scans: int) -> tuple[list[Value], list[Value]]:
    """States and scanned operands, which begin at operand `first`."""
    count = len(site.operands) - first
    if not 1 <= scans <= count:
        raise site.fail(f"attribute 'num_scan_inputs' is {scans}, with {max(count, 0)} operands to take from")
    values = [site.operand(first + index) for index in range(count)]
    return values[: count - scans], values[count - scans :]


def _stacked(site: Site, states: int) -> int:
    count = len(site.graph("body").output) - states
    if count < 0:
        raise site.fail(f"its body has fewer results than the {states} states")
    return count


def _numbers(site: Site, name: str, count: int) -> tuple[int, ...]:
    found = site.attr(name)
    numbers = (0,) * count if found is None else tuple(found)
    if len(numbers) != count:
        raise site.fail(f"attribute '{name}' has {len(numbers)} entries, expected {count}")
    return numbers


def _flags(site: Site, name: str, count: int) -> tuple[bool, ...]:
    numbers = _numbers(site, name, count)
    if not set(numbers) <= {0, 1}:
        raise site.fail(f"attribute '{name}' is {list(numbers)}, expected 0 or 1 in each place")
    return tuple(map(bool, numbers))


def _to_front(site: Site, value: Value, axis: int) -> Value:
    rank = len(value.shape)
    front = site.normal_axis(axis, rank)
    perm = (front, *(a for a in range(rank) if a != front))
    return value if front == 0 else site.emit("Transpose", value, perm=perm)


def _from_front(site: Site, value: Value, axis: int) -> Value:
    rank = len(value.shape)
    place = site.normal_axis(axis, rank)
    rest = list(range(1, rank))
    perm = (*rest[:place], 0, *rest[place:])
    return value if place == 0 else site.emit("Transpose", value, perm=perm)


def _flipped(site: Site, value: Value) -> Value:
    """The slices of axis 0 in reverse order."""
    rank, length = len(value.shape), value.shape[0]
    starts, ends = (length - 1, *(0 for _ in range(rank - 1))), (-1, *value.shape[1:])
    steps = (-1, *(1 for _ in range(rank - 1)))
    return site.emit("Slice", value, starts=starts, ends=ends, axes=tuple(range(rank)), steps=steps)


def _element(site: Site, value: Value, number: int) -> Value:
    index = site.constant(np.array(number, np.int64))
    return site.emit("Gather", value, index, axis=0)


def _stack(site: Site, values: Sequence[Value]) -> Value:
    rows = [site.reshape(value, (1, *value.shape)) for value in values]
    return rows[0] if len(rows) == 1 else site.emit("Concat", *rows, axis=0)


def _run(
    site: Site,
    states: Sequence[Value],
    sources: Sequence[Value],
    backwards: bool,
    running: Value | None = None,
) -> list[Value]:
    """One Scan node; running: for each step, whether the sequence still goes on."""
    lengths = {value.shape[:1] for value in sources}
    if len(lengths) != 1 or lengths & {(), (0,)}:
        found = ", ".join(str(value.type) for value in sources)
        raise site.fail(f"its scanned operands need a common number of steps, at least one; they are {found}")
    types = [
        *(value.type for value in states),
        *(TensorType(value.dtype, value.shape[1:]) for value in sources),
    ]
    body = site.body(site.graph("body"), types)
    _check_states(site, states, body)
    operands = [*states, *sources]
    if running is not None:
        _end_early(body, len(states), len(operands))
        operands.append(running)
    attrs = {
        "num_states": len(states),
        "num_scans": len(operands) - len(states),
        "reverse": backwards,
    }
    return with_bodies(site.builder, "Scan", [*operands, *body.captures], attrs, (body.function,))


def _check_states(site: Site, states: Sequence[Value], body: Body) -> None:
    outputs = body.function.outputs
    if len(outputs) < len(states):
        raise site.fail(f"its body has {len(outputs)} results for {len(states)} states")
    for before, after in zip(states, outputs, strict=False):
        if before.type != after.type:
            raise site.fail(
                f"the state '{before.name}' of type {before.type} becomes {after.type} in the body"
            )
    for value in outputs:
        if value.type.is_bounded:
            raise site.fail(f"its body gives {value.type}, a size that depends on data")


def _end_early(body: Body, states: int, position: int) -> None:
    """After the end of a sequence states stay as they are, and results are zero."""
    function = body.function
    flag = Placeholder(function.fresh("running"), TensorType(BOOL, ()))
    build = Builder(function)
    old = [*function.inputs[:states], *(None for _ in function.outputs[states:])]
    outputs: list[Value] = []
    for new, before in zip(function.outputs, old, strict=True):
        other = before or build.constant(np.zeros((), new.dtype.numpy), "zero")
        outputs.append(build.op("Where", flag, new, other))
    function.outputs = outputs
    function.inputs.insert(position, flag)
