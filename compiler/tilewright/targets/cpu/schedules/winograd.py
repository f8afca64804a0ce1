"""Template for WinogradConv: three stages in blocks of tile rows, so that what passes between them stays in
the cache.

    for block of tile rows:
      input:   for tile, for channels: the 16 transformed values of a window, written out
      product: for position, for panel of columns, for tile of rows: register tiles, as in contraction.py
      output:  for tile, for channels: 4 results from 16 products, with the epilogue

Blocks run in parallel with buffers of their own when there are enough of them; otherwise each stage inside
a block does.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lower.target import MODEL, Choice, Group
from tilewright.machine import Machine
from tilewright.ops.winograd import TILE, WINDOW, tiles
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

POSITIONS = WINDOW * WINDOW
ENOUGH_BLOCKS = 8  # blocks that share evenly among a few threads
LOCAL_BYTES = 1 << 19  # what a thread may keep on its stack
CACHE_SHARE = 0.75  # of the second-level cache, for what passes between the stages


@dataclass(frozen=True)
class Shape:
    """Extents of one convolution."""

    channels: int
    columns: int
    rows: int
    tiles_high: int
    tiles_wide: int


def applies(group: Group) -> bool:
    return group.anchor_op == "WinogradConv" and len(group.outputs) == 1


def schedule(group: Group, machine: Machine) -> Choice:
    """Blocks as large as the cache allows, the tile of the analytic model inside."""
    s = Schedule(group.outputs)
    result, product = group.outputs[0].stage.name, group.anchor.stage.name
    source = next(t.stage.name for t in group.anchor.stage.inputs if not t.stage.is_placeholder)
    shared = inline_elementwise(s, keep={source})
    sums = s.cache_write(product, "register")
    partial = block_sums(s, sums, PRODUCTS)
    s.set_scope(partial, "register")
    width = next(panel_width(t.storage) for t in group.input_types if panel_width(t.storage))
    lanes = machine.lanes(32)
    _, columns, high, wide = group.outputs[0].shape
    shape = Shape(group.anchor.stage.inputs[0].shape[-1], columns, high, tiles(high), tiles(wide))
    rows = block_rows(shape, machine)
    apart = -(-shape.tiles_high // rows) >= ENOUGH_BLOCKS and _block_bytes(shape, rows) <= LOCAL_BYTES
    block, across, vector = _output(s, result, rows, lanes)
    tile = _product(s, product, (rows, shape.tiles_wide), width, machine)
    tile_sums(Frame(s, product, sums, partial), 5, 4, lanes)
    share_values(Frame(s, result, product, product, shared), vector, 1, lanes)
    s.compute_at(sums, product, f"{axis(product, 3)}.o")
    _input(s, source, lanes, parallel=not apart)
    s.compute_at(product, result, block)
    s.compute_at(source, result, block)
    if apart:
        s.parallel(result, block)
    else:
        s.parallel(result, across)
        s.parallel(product, axis(product, 0))
    knobs = described(
        block=rows, rows=tile, vectors=-(-width // lanes), columns=width, parallel=block if apart else across
    )
    return Choice("winograd", s, MODEL, knobs)


def _output(s: Schedule, result: str, rows: int, lanes: int) -> tuple[str, str, str]:
    """The loop over blocks, the one inside that may run in parallel, and the one over vectors of channels."""
    tile_row, r = s.split(result, axis(result, 2), TILE)
    tile_column, c = s.split(result, axis(result, 3), TILE)
    block, within = s.split(result, tile_row, rows)
    vector, lane = s.split(result, axis(result, 1), lanes)
    s.reorder(result, axis(result, 0), block, tile_column, within, vector, r, c, lane)
    s.unroll(result, r)
    s.unroll(result, c)
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


def _input(s: Schedule, source: str, lanes: int, parallel: bool) -> None:
    channels, lane = s.split(source, axis(source, 4), lanes)
    order = [axis(source, p) for p in (1, 3, 2)]
    s.reorder(source, *order, channels, axis(source, 0), lane)
    s.unroll(source, axis(source, 0))
    s.vectorize(source, lane)
    if parallel:
        s.parallel(source, axis(source, 3))


def block_rows(shape: Shape, machine: Machine) -> int:
    """Rows of tiles in a block: the weights are read once a block, and a block should stay in the cache."""
    weights = POSITIONS * shape.channels * shape.columns * 4
    room = machine.caches[1] * CACHE_SHARE if len(machine.caches) > 1 else LOCAL_BYTES

    def traffic(rows: int) -> float:
        blocks = -(-shape.tiles_high // rows)
        again = weights * blocks if weights + _block_bytes(shape, rows) > room else weights
        spilled = 2 * blocks * _block_bytes(shape, rows) if _block_bytes(shape, rows) > room else 0
        return again + spilled

    return min(range(1, shape.tiles_high + 1), key=lambda n: (traffic(n), n))


def _block_bytes(shape: Shape, rows: int) -> int:
    """Transformed input and products of a block."""
    return POSITIONS * rows * shape.tiles_wide * (shape.channels + shape.columns) * 4
