"""Template for products of bf16 or of bytes on AMX tiles: `contraction` with tiles in place of vectors.

for panel of columns:                       (one block of the packed operand)
  for chunk of rows:                        (parallel here, or over panels, whichever shares better)
    for block of rows of the chunk:         (the last one overlaps the one before)
      sums[high, wide] = 0                  in tiles, of up to 16 x 16
      for chunk of input channels, for taps:
        sums += x * w                       one load or less for a product, windows read in place
      staged[block] = sums
    for row: result = epilogue(staged)      vectors of columns
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from tilewright.expr import Expr, Read, reads_of
from tilewright.loops.affine import Bounds
from tilewright.lower.target import MODEL, Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.schedules.amx_blocks import COLUMNS, UNITS, Blocks, Product, blocks_for
from tilewright.targets.cpu.schedules.common import (
    axis,
    described,
    place,
    reduce_axes,
    run_parallel,
    share_values,
    start,
    work,
)
from tilewright.targets.cpu.schedules.contraction import (
    chunk_of,
    column_of,
    is_product,
    panel_width,
    reads_plainly,
    terms_of,
)
from tilewright.tensor.ir import Reduce


def applies(group: Group, machine: Machine) -> bool:
    """A product with nothing but element-wise work after it, whose second operand is packed for tiles."""
    return _blocks(group, machine) is not None


def schedule(group: Group, machine: Machine) -> Choice:
    """Blocks of the analytic model."""
    blocks = _blocks(group, machine)
    assert blocks is not None
    frame = start(group, work(group))
    s, result, sums, run = frame.schedule, frame.result, frame.sums, blocks.run
    shape, column, lanes = group.outputs[0].shape, column_of(group), machine.lanes(32)
    rows = [p for p in range(len(shape)) if p != column]
    s.set_scope(sums, "tile")
    data = [a.name for a in s.state.stage(sums).stage.axes]
    along = rows[run.axis]
    if run.pitch:
        s.flatten(sums, data[along - 1], data[along], run.pitch)
    staged = s.cache_read(sums, "local", [stage.name for stage in s.state.consumers(sums)])
    cut, chunks = run.split([shape[p] for p in rows])
    outer = [axis(result, p) for p in rows]
    extents = dict(zip(outer, (shape[p] for p in rows), strict=True))
    chunk, *inner = s.split(result, outer[cut], run.chunk)
    if run.pitch:
        inner.append(outer.pop(run.axis))
    outer[cut], extents[chunk] = chunk, chunks
    panel, within = s.split(result, axis(result, column), blocks.columns)
    vector, lane = s.split(result, within, lanes)
    extents[panel] = -(-shape[column] // blocks.columns)
    order = [panel, *outer]
    s.reorder(result, *order, *inner, vector, lane)
    s.unroll(result, vector)
    s.vectorize(result, lane)
    over = run_parallel(s, result, extents, order, work(group))
    share_values(frame, inner[-1], column, lanes)
    s.compute_at(staged, result, order[-1])
    flat = 1 if run.pitch else 0  # axes that have become one
    position = along - flat, column - (flat if column > along else 0)
    s.compute_at(sums, staged, _in_tiles(s, staged, *position, blocks, "store_tile"))
    _in_tiles(s, sums, *position, blocks, blocks.unit.intrinsic)
    tiles = f"{blocks.high}x{blocks.wide}"
    knobs = described(
        rows=blocks.rows,
        run=f"{run.chunk}x{run.pitch}" if run.pitch else run.chunk,
        terms=blocks.terms,
        tiles=tiles,
        columns=blocks.columns,
        parallel=over,
    )
    return Choice("amx", s, MODEL, knobs)


def _in_tiles(s: Schedule, stage: str, row: int, column: int, blocks: Blocks, intrinsic: str) -> str:
    """The loops of a stage: blocks of rows outermost, then terms, tiles written out, the inside of a tile as
    the intrinsic; the loop over blocks.

    Columns past the end are computed from the zeros of the packed operand.
    """
    names = [a.name for a in s.state.stage(stage).stage.axes]
    s.pad(stage, names[column], blocks.columns)
    outer, terms = reduce_axes(s, stage), []
    if outer:
        summed = outer.pop()
        if blocks.joined:
            summed = s.fuse(stage, outer.pop(), summed)
        chunk, within = s.split(stage, summed, blocks.terms)
        outer = [chunk, *outer] if blocks.chunk else [*outer, chunk]
        terms = [*s.split(stage, within, blocks.unit.group)]
    if blocks.even:
        tile_row, i = s.split(stage, names[row], blocks.rows)
        block, tile_row = s.overlap(stage, tile_row, blocks.high)
    else:
        block, tile_row = s.overlap(stage, names[row], blocks.rows * blocks.high)
        tile_row, i = s.split(stage, tile_row, blocks.rows)
    tile_column, j = s.split(stage, names[column], COLUMNS)
    others = [name for position, name in enumerate(names) if position not in (row, column)]
    tiles = [tile_row, tile_column]
    s.reorder(stage, *others, block, *outer, *tiles, i, j, *terms)
    for name in tiles:
        s.unroll(stage, name)
    s.tensorize(stage, i, intrinsic)
    return block


def _blocks(group: Group, machine: Machine) -> Blocks | None:
    """The blocks that the operand was packed for; None when it is not for tiles."""
    packed = [t for t in group.input_types if t.storage.tag and terms_of(t.storage) in UNITS]
    if not is_product(group) or len(packed) != 1 or not reads_plainly(group):
        return None
    stage, shape, column = group.anchor.stage, group.outputs[0].shape, column_of(group)
    *taps, channels = stage.reduce_axes
    (product,) = (body for body in stage.bodies if isinstance(body, Reduce))
    x = reads_of(product.values[0])[0]
    rows = [position for position in range(len(shape)) if position != column]
    steps = _steps(group, x)
    found = Product(
        tuple(shape[p] for p in rows),
        _pitches(rows, [steps.get(stage.axes[p].var, 0) for p in rows]),
        shape[column],
        x.source.shape[1] // channels.extent if group.anchor_op == "Conv" else 1,
        prod(tap.extent for tap in taps),
        channels.extent,
        taps[-1].extent if taps and steps.get(taps[-1].var) == channels.extent else 1,
    )
    storage = packed[0].storage
    blocks = blocks_for(found, machine, UNITS[terms_of(storage)], panel_width(storage))
    return blocks if blocks is not None and blocks.chunk == chunk_of(storage) else None


def _steps(group: Group, x: Read) -> dict[Expr, int]:
    """How far the first operand moves in memory with each axis, in elements."""
    type = group.input_types[next(i for i, tensor in enumerate(group.inputs) if tensor is x.source)]
    axes = (*group.anchor.stage.axes, *group.anchor.stage.reduce_axes)
    return place(type, x.indices, Bounds({a.name: (0, a.extent - 1) for a in axes})).terms


def _pitches(rows: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    """For `Product`; steps: of the row axes."""
    found = [0]
    for position, (outer, inner) in enumerate(pairwise(steps)):
        even = inner > 0 and outer % inner == 0 and rows[position + 1] == rows[position] + 1
        found.append(outer // inner if even else 0)
    return tuple(found)
