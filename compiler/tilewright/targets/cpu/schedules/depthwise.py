"""Template for depthwise convolutions whose channels lie side by side: tiles of neighbouring pixels.

for band of rows:                    (parallel; in small planes runs of channels are, and stand outside)
  for tile of columns, for vector of channels:
    sums[4, 2] = 0                   in registers
    for taps: sums += load(x) * load(w)
    result = epilogue(sums)

Windows of neighbours overlap. A tile of four rows and two columns loads 3 vectors of x for each 3x3 window, a
single pixel loads 9; and bands of four rows fetch each row half as often as bands of one.
"""

from __future__ import annotations

from math import prod

from tilewright.lower.target import MODEL, Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.schedule import Schedule
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

HIGH, WIDE = 4, 2  # pixels of a tile: enough sums to hide the latency of a multiply-add
CHUNKS = 8  # what shares evenly among a few threads
RUN = 4  # vectors side by side below which pixels are read in pieces too short


def applies(group: Group, machine: Machine) -> bool:
    """Windows over planes that are two pixels high and wide at least, small enough to write a tile out."""
    shape = group.outputs[0].shape
    if group.anchor_op != "Conv" or len(shape) != 4 or not one_result(group):
        return False
    if memory_order(group)[-3:] != [2, 3, 1] or min(shape[2:]) < 2:
        return False
    written_out = HIGH * WIDE * _taps(group) <= MAX_UNROLLED
    return written_out and term_size(group, 1, machine.lanes(32)) == 1


def schedule(group: Group, machine: Machine) -> Choice:
    """Vectors of channels, tiles of pixels above them."""
    frame = start(group, TERMS)
    s, result = frame.schedule, frame.result
    batch, channels, high, wide = group.outputs[0].shape
    lanes = min(machine.lanes(32), channels)
    tile = min(HIGH, high), min(WIDE, wide)
    bands, vectors = -(-high // tile[0]), -(-channels // lanes)
    vector, lane = s.split(result, axis(result, 1), lanes)
    band, row = s.split(result, axis(result, 2), tile[0])
    across, column = s.split(result, axis(result, 3), tile[1])
    outer, turns, vector = _outer_loop(s, result, (band, bands), (vector, vectors))
    order = [axis(result, 0), *dict.fromkeys((outer, band, across, vector))]
    s.reorder(result, *order, row, column, lane)
    for name in (row, column):
        s.unroll(result, name)
    s.vectorize(result, lane)
    over = run_parallel(s, result, {order[0]: batch, outer: turns}, [order[0], outer], work(group))
    share_values(frame, vector, 1, lanes)
    s.compute_at(frame.sums, result, vector)
    tile_sums(frame, 4, 1, lanes, unroll_terms=True)
    knobs = described(rows=f"{tile[0]}x{tile[1]}", vectors=1, lanes=lanes, parallel=over)
    return Choice("depthwise", s, MODEL, knobs)


def _outer_loop(
    s: Schedule, result: str, bands: tuple[str, int], vectors: tuple[str, int]
) -> tuple[str, int, str]:
    """The loop that may run in parallel and its turns; the loop over vectors inside it.

    bands, vectors: loops with their turns. Few bands leave threads idle: then runs of channels stand outside.
    """
    runs = _runs(vectors[1])
    if bands[1] >= CHUNKS or runs <= bands[1]:
        return *bands, vectors[0]
    outside, inside = s.split(result, vectors[0], vectors[1] // runs)
    return outside, runs, inside


def _runs(vectors: int) -> int:
    """Into how many equal runs the vectors are cut: an even number near CHUNKS, if there is one.

    A shorter run at the end would be code of its own, or take the lanes of every run one by one.
    """
    counts = [n for n in range(2, vectors // RUN + 1) if vectors % n == 0]
    return min(counts, key=lambda n: (n % 2, abs(n - CHUNKS)), default=1)


def _taps(group: Group) -> int:
    return work(group) // prod(group.outputs[0].shape)
