"""Template for WinogradConv: three stages in blocks of tile rows, so that what passes between them stays in
the cache.

    for block of tile rows:
      input:   for tile, for channels: the transformed values of a window
      product: for position, for panel of columns, for tile of rows: register tiles, as in contraction.py
      output:  for tile, for channels: the results of a tile from its products, with the epilogue

A transform in one step is written out. One in two steps loops over the lines of a window, once for each step:
written out it would be twice the code, and its vectors do not fit the registers anyway.

Blocks run in parallel with buffers of their own when there are enough of them; otherwise each stage inside
a block does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, log2

from tilewright.lower.target import MODEL, Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.schedules.common import (
    PRODUCTS,
    Frame,
    axis,
    block_sums,
    described,
    inline_elementwise,
    share_values,
    tile_sums,
)
from tilewright.targets.cpu.schedules.contraction import panel_width
from tilewright.targets.cpu.schedules.tiles import row_limit, tile_for
from tilewright.tensor.ir import Tensor

ENOUGH_BLOCKS = 8  # blocks that share evenly among a few threads
LOCAL_BYTES = 1 << 19  # what a thread may keep on its stack
CACHE_SHARE = 0.5  # of the second-level cache, for what passes between the stages
VISIBLE = 0.15  # of the time that weights take to come
UNEVEN = 1.5  # how much more blocks may cost that leave no last one of fewer rows, which is code of its own


@dataclass(frozen=True)
class Shape:
    """Extents of one convolution; window: elements of the input along one side of a tile."""

    channels: int
    columns: int
    window: int
    tiles_high: int
    tiles_wide: int

    @property
    def tile(self) -> int:
        return self.window - 2


def applies(group: Group) -> bool:
    return group.anchor_op == "WinogradConv" and len(group.outputs) == 1


def schedule(group: Group, machine: Machine) -> Choice:
    """Blocks as large as the cache allows, the tile of the analytic model inside."""
    s = Schedule(group.outputs)
    result, product = group.outputs[0].stage.name, group.anchor.stage.name
    source = next(filter(None, map(_computed, group.anchor.stage.inputs)))
    first = _first_steps(s, source, product)
    shared = inline_elementwise(s, keep={source, *first})
    sums = s.cache_write(product, "register")
    partial = block_sums(s, sums, PRODUCTS)
    s.set_scope(partial, "register")
    width = next(panel_width(t.storage) for t in group.input_types if panel_width(t.storage))
    lanes = machine.lanes(32)
    positions, _, tiles_high, tiles_wide, columns = group.anchor.shape
    channels = group.anchor.stage.inputs[0].shape[-1]
    shape = Shape(channels, columns, isqrt(positions), tiles_high, tiles_wide)
    rows = block_rows(shape, machine)
    apart = -(-tiles_high // rows) >= ENOUGH_BLOCKS and _block_bytes(shape, rows) <= LOCAL_BYTES
    block, across, vector = _output(s, result, shape.tile, rows, lanes, written_out=not first)
    tile = _product(s, product, (rows, tiles_wide), width, machine)
    tile_sums(Frame(s, product, sums, partial), 5, 4, lanes)
    share_values(Frame(s, result, product, product, shared), vector, 1, lanes)
    s.compute_at(sums, product, f"{axis(product, 3)}.o")
    inner = _input(s, source, shape.window, lanes, written_out=not first)
    for stage, consumer, at in zip(first, (source, result), (inner, vector), strict=False):
        s.compute_at(stage, consumer, at)
        _lines(s, stage, lanes)
    s.compute_at(product, result, block)
    s.compute_at(source, result, block)
    if apart:
        s.parallel(result, block)
    else:
        s.parallel(result, across)
        s.parallel(source, axis(source, 3))
        s.parallel(product, axis(product, 0))
    knobs = described(
        side=shape.tile,
        block=rows,
        rows=tile,
        vectors=-(-width // lanes),
        columns=width,
        parallel=block if apart else across,
    )
    return Choice("winograd", s, MODEL, knobs)


def _computed(tensor: Tensor) -> str | None:
    """The stage of a tensor that is no placeholder."""
    return None if tensor.stage.is_placeholder else tensor.stage.name


def _first_steps(s: Schedule, source: str, product: str) -> tuple[str, ...]:
    """First steps of the transforms of input and products; none where each is made in one step."""
    into = next(filter(None, map(_computed, s.state.stage(source).stage.inputs)), None)
    return () if into is None else (into, *(stage.name for stage in s.state.consumers(product)))


def _lines(s: Schedule, stage: str, lanes: int) -> None:
    """The first step of one transform, [line, N, tile row, tile column, place, channel]: place by place."""
    line, n, high, wide, place, channel = (axis(stage, p) for p in range(6))
    vector, lane = s.split(stage, channel, lanes)
    s.reorder(stage, n, high, wide, vector, place, line, lane)
    s.unroll(stage, line)
    s.vectorize(stage, lane)


def _output(
    s: Schedule, result: str, side: int, rows: int, lanes: int, written_out: bool
) -> tuple[str, str, str]:
    """The loop over blocks, the one inside that may run in parallel, and the one over vectors of channels."""
    tile_row, r = s.split(result, axis(result, 2), side)
    tile_column, c = s.split(result, axis(result, 3), side)
    block, within = s.split(result, tile_row, rows)
    vector, lane = s.split(result, axis(result, 1), lanes)
    s.reorder(result, axis(result, 0), block, tile_column, within, vector, r, c, lane)
    for name in (r, c) if written_out else (c,):
        s.unroll(result, name)
    s.vectorize(result, lane)
    return block, tile_column, vector


def _product(s: Schedule, product: str, rows: tuple[int, int], width: int, machine: Machine) -> str:
    """Register tiles of the products of each position; the rows of a tile."""
    lanes = machine.lanes(32)
    tile = tile_for(rows, width, PRODUCTS, machine)
    limit = row_limit(machine.registers, width // lanes)
    first, second = tile.rows
    panel, within = s.split(product, axis(product, 4), width)
    vector, lane = s.split(product, within, lanes)
    first, second = min(first, limit), min(second, limit)
    high, h = s.split(product, axis(product, 2), first)
    wide, w = s.split(product, axis(product, 3), second)
    s.reorder(product, axis(product, 0), axis(product, 1), panel, high, wide, h, w, vector, lane)
    for name in (h, w, vector):
        s.unroll(product, name)
    s.vectorize(product, lane)
    return f"{first}x{second}"


def _input(s: Schedule, source: str, window: int, lanes: int, written_out: bool) -> str:
    """The loop over vectors of channels."""
    channels, lane = s.split(source, axis(source, 4), lanes)
    line, place = s.split(source, axis(source, 0), window)
    order = [axis(source, p) for p in (1, 3, 2)]
    s.reorder(source, *order, channels, line, place, lane)
    for name in (line, place) if written_out else (place,):
        s.unroll(source, name)
    s.vectorize(source, lane)
    return channels


def block_rows(shape: Shape, machine: Machine) -> int:
    """Rows of tiles in a block: what passes between the stages should stay near, weights are read once each.

    A byte costs as often as what it belongs to doubles beyond the second-level cache. Weights are read in
    order, of which prefetching hides most. Measured on a Zen 4 core with layers of 7 to 224 pixels a side.
    """
    weights = shape.window**2 * shape.channels * shape.columns * 4
    room = machine.caches[min(1, len(machine.caches) - 1)] * CACHE_SHARE

    def distance(size: int) -> float:
        return log2(max(1.0, size / room))

    def cost(rows: int) -> float:
        blocks, passed = -(-shape.tiles_high // rows), _block_bytes(shape, rows)
        moved = 2 * passed * distance(passed) + VISIBLE * weights * distance(weights + passed)
        return blocks * moved * (UNEVEN if shape.tiles_high % rows else 1)

    return min(range(1, shape.tiles_high + 1), key=lambda n: (cost(n), n))


def _block_bytes(shape: Shape, rows: int) -> int:
    """Transformed input and products of a block."""
    return shape.window**2 * rows * shape.tiles_wide * (shape.channels + shape.columns) * 4
