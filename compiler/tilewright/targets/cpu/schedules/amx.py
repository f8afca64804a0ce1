"""Template for products of bf16 on AMX tiles: the contraction template with tiles in place of vectors.

for panel of columns:                       (one block of the packed operand)
  for block of rows:                        (parallel here, or over panels, whichever shares better)
    sums[high, wide] = 0                    in tiles, of up to 16 x 16
    for taps, for chunk of input channels:
      sums += x * w                         one load or less for a product, windows read in place
    staged = sums
    for row: result = epilogue(staged)      vectors of columns
"""

from __future__ import annotations

from math import prod

from tilewright.expr import reads_of
from tilewright.lower.target import MODEL, Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.codegen_dot import PAIR
from tilewright.targets.cpu.schedules.amx_blocks import COLUMNS, Blocks, blocks_for
from tilewright.targets.cpu.schedules.common import (
    axis,
    described,
    reduce_axes,
    run_parallel,
    share_values,
    start,
    work,
)
from tilewright.targets.cpu.schedules.contraction import column_of, in_pairs, is_product, panel_width
from tilewright.tensor.ir import Reduce


def applies(group: Group, machine: Machine) -> bool:
    """A product with nothing but element-wise work after it, whose second operand is packed for tiles."""
    return _blocks(group, machine) is not None


def schedule(group: Group, machine: Machine) -> Choice:
    """Blocks of the analytic model."""
    blocks = _blocks(group, machine)
    assert blocks is not None
    frame = start(group, work(group))
    s, result, sums = frame.schedule, frame.result, frame.sums
    s.set_scope(sums, "tile")
    staged = s.cache_read(sums, "local", [stage.name for stage in s.state.consumers(sums)])
    shape, column, lanes = group.outputs[0].shape, column_of(group), machine.lanes(32)
    rows = [p for p in range(len(shape)) if p != column]
    outer, inner = [], []
    extents: dict[str, int] = {}
    for index, position in enumerate(rows):
        name, turns = axis(result, position), shape[position]
        factor = (blocks.rows if index == blocks.row_axis else 1) * (
            blocks.high if index == blocks.high_axis else 1
        )
        if factor > 1:
            name, within = s.split(result, name, factor)
            inner.append(within)
        outer.append(name)
        extents[name] = turns // factor
    panel, within = s.split(result, axis(result, column), blocks.columns)
    vector, lane = s.split(result, within, lanes)
    extents[panel] = -(-shape[column] // blocks.columns)
    order = [panel, *outer]
    s.reorder(result, *order, *inner, vector, lane)
    s.unroll(result, vector)
    s.vectorize(result, lane)
    over = run_parallel(s, result, extents, order, work(group))
    share_values(frame, inner[-1], column, lanes)
    for stage, intrinsic in ((staged, "store_tile"), (sums, "dot_tile")):
        s.compute_at(stage, result, order[-1])
        _in_tiles(s, stage, rows[blocks.row_axis], column, blocks, intrinsic)
    tiles = f"{blocks.high}x{blocks.wide}"
    knobs = described(
        rows=blocks.rows, terms=blocks.terms, tiles=tiles, columns=blocks.columns, parallel=over
    )
    return Choice("amx", s, MODEL, knobs)


def _in_tiles(s: Schedule, stage: str, row: int, column: int, blocks: Blocks, intrinsic: str) -> None:
    """The loops of a stage: terms outermost, tiles written out, the inside of a tile as the intrinsic.

    Columns past the end are computed from the zeros of the packed operand.
    """
    names = [a.name for a in s.state.stage(stage).stage.axes]
    s.pad(stage, names[column], blocks.columns)
    outer, terms = reduce_axes(s, stage), []
    if outer:
        chunk, within = s.split(stage, outer.pop(), blocks.terms)
        outer.append(chunk)
        terms = [*s.split(stage, within, PAIR)]
    tile_row, i = s.split(stage, names[row], blocks.rows)
    tile_column, j = s.split(stage, names[column], COLUMNS)
    others = [name for position, name in enumerate(names) if position not in (row, column)]
    tiles = [*others, tile_row, tile_column]
    s.reorder(stage, *outer, *tiles, i, j, *terms)
    for name in tiles:
        s.unroll(stage, name)
    s.tensorize(stage, i, intrinsic)


def _blocks(group: Group, machine: Machine) -> Blocks | None:
    """The blocks that the operand was packed for; None when it is not for tiles."""
    packed = [t for t in group.input_types if t.storage.tag and in_pairs(t.storage)]
    if not is_product(group) or len(packed) != 1:
        return None
    stage, shape, column = group.anchor.stage, group.outputs[0].shape, column_of(group)
    *taps, channels = (a.extent for a in stage.reduce_axes)
    groups = 1
    if group.anchor_op == "Conv":
        (product,) = (body for body in stage.bodies if isinstance(body, Reduce))
        groups = reads_of(product.values[0])[0].source.shape[1] // channels
    rows = [extent for position, extent in enumerate(shape) if position != column]
    found = blocks_for(rows, shape[column], groups, prod(taps), channels, machine)
    return found if found is not None and found.columns == panel_width(packed[0].storage) else None
