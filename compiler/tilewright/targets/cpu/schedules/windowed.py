"""Template for reductions that keep a contiguous axis: pools, means over planes, plain convolutions.

for outer axes:                      (in the order in which the result lies in memory, parallel outermost)
  for tile of rows, for vectors along the contiguous axis:
    sums[rows, vectors] = identity   in registers
    for taps: sums = combine(sums, load(x))
    result = epilogue(sums)
"""

from __future__ import annotations

from math import prod

from tilewright.lower.target import MODEL, Choice, Group
from tilewright.machine import Machine
from tilewright.targets.cpu.schedules.common import (
    MAX_UNROLLED,
    TERMS,
    axis,
    described,
    memory_order,
    one_result,
    run_parallel,
    share_values,
    start,
    term_size,
    tile_sums,
    work,
)

SUMS = 8  # independent accumulators that hide the latency of their operation


def applies(group: Group) -> bool:
    """Any single reduction followed by element-wise work, with a data axis to run vectors along."""
    return one_result(group) and any(extent > 1 for extent in group.outputs[0].shape)


def schedule(group: Group, machine: Machine) -> Choice:
    """Vectors along the result's contiguous axis, a tile of neighbouring results above it."""
    frame = start(group, TERMS)
    s, result = frame.schedule, frame.result
    shape = group.outputs[0].shape
    lanes = machine.lanes(32)
    order = memory_order(group)
    contiguous = order[-1]
    rows = [p for p in order[:-1] if shape[p] > 1]
    width = min(shape[contiguous], lanes * (2 if shape[contiguous] >= 4 * lanes else 1))
    taps = work(group) // max(1, prod(shape))
    tile = _row_tile(shape[rows[-1]], taps, -(-width // lanes)) if rows else 1
    block, within = s.split(result, axis(result, contiguous), width)
    vector, lane = s.split(result, within, lanes)
    outer = [axis(result, p) for p in order[:-1]]
    extents = {name: shape[p] for name, p in zip(outer, order[:-1], strict=True)}
    tiled: list[str] = []
    if tile > 1:
        name = axis(result, rows[-1])
        o, i = s.split(result, name, tile)
        outer[outer.index(name)] = o
        extents[o] = -(-extents.pop(name) // tile)
        tiled = [i]
    extents[block] = -(-shape[contiguous] // width)
    s.reorder(result, *outer, block, *tiled, vector, lane)
    for name in (*tiled, vector):
        s.unroll(result, name)
    s.vectorize(result, lane)
    over = run_parallel(s, result, extents, [*outer, block], work(group))
    share_values(frame, block, contiguous, lanes)
    s.compute_at(frame.sums, result, block)
    size = taps * tile * -(-width // lanes) * term_size(group, contiguous, lanes)
    written_out = size <= MAX_UNROLLED
    tile_sums(frame, len(shape), contiguous, lanes, written_out)
    knobs = described(rows=tile, vectors=-(-width // lanes), lanes=min(lanes, width), parallel=over)
    return Choice("windowed", s, MODEL, knobs)


def _row_tile(extent: int, taps: int, vectors: int) -> int:
    """Neighbouring results whose windows share what they read; a divisor of the extent when one is near."""
    limit = max(1, min(SUMS, MAX_UNROLLED // max(1, taps * vectors)))
    wanted = max(1, min(limit, -(-SUMS // vectors), extent))
    divisors = [n for n in range(1, wanted + 1) if extent % n == 0]
    return divisors[-1] if divisors[-1] * 2 > wanted else wanted
