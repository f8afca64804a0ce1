"""Template for convolutions and matrix products: register tiles of rows by vectors of columns.

for panel of columns:                       (one block of the packed operand; see unpacked.py for others)
  for tile of rows:                         (parallel here, or over panels, whichever shares better)
    sums[rows, vectors] = 0                 in registers
    for taps, for input channel:
      sums += broadcast(x) * load(w)        unrolled over the tile
    result = epilogue(sums)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.expr import Cast, Read, children
from tilewright.lower.target import MODEL, Choice, Group
from tilewright.machine import Machine
from tilewright.storage import Storage
from tilewright.targets.cpu.codegen_dot import DOTS
from tilewright.targets.cpu.schedules.common import (
    PRODUCTS,
    axis,
    described,
    one_result,
    run_parallel,
    share_values,
    start,
    tile_dots,
    tile_sums,
    work,
)
from tilewright.targets.cpu.schedules.tiles import row_limit, tile_for
from tilewright.targets.cpu.schedules.unpacked import unpacked_vectors
from tilewright.tensor.ir import Reduce

COLUMNS = {"Conv": 1, "Gemm": -1, "MatMul": -1}  # which axis of the result runs over columns
_DOT_OF = {dot.terms: name for name, dot in DOTS.items()}


def panel_width(storage: Storage) -> int:
    """Columns in a block of a packed operand, rows side by side or not; 0 when it is not packed."""
    blocks = _blocks(storage)
    return blocks[0] if len(blocks) == 1 else blocks[-2] if terms_of(storage) else 0


def terms_of(storage: Storage) -> int:
    """How many rows of a packed operand lie side by side, for an intrinsic; 0 where each lies apart."""
    blocks = _blocks(storage)
    return blocks[-1] if len(blocks) in (2, 3) and blocks[-1] in _DOT_OF else 0


def chunk_of(storage: Storage) -> int:
    """How many rows of one tap stand in a block, so that those of the next tap follow; 0 for all of them."""
    blocks = _blocks(storage)
    return blocks[0] * blocks[-1] if len(blocks) == 3 else 0


def _blocks(storage: Storage) -> list[int]:
    """Sizes of the blocks, outermost first."""
    rank = len(set(storage.tag.lower()) & set("abcdefgh"))
    return [size for _, _, size in storage.terms(rank) if size]


def long_row_axis(shape: Sequence[int], rows: Sequence[int]) -> int:
    """The innermost row axis with more than one row; the innermost one when there is none."""
    return next((p for p in reversed(rows) if shape[p] > 1), rows[-1])


def applies(group: Group, machine: Machine) -> bool:
    """A product with nothing but element-wise work after it, whose second operand is packed or can be read by
    vectors of columns.
    """
    if not is_product(group):
        return False
    packed = [t for t in group.input_types if t.storage.tag and panel_width(t.storage)]
    return len(packed) == 1 or (not packed and unpacked_vectors(group, column_of(group), machine) > 0)


def is_product(group: Group) -> bool:
    """A product of rows and columns with nothing but element-wise work after it."""
    return group.anchor_op in COLUMNS and one_result(group) and len(group.outputs[0].shape) > 1


def reads_plainly(group: Group) -> bool:
    """Whether factors are widened as they are read; a guard around one, of padding that is in no halo, is
    what no instruction does.
    """
    (product,) = (body.values[0] for body in group.anchor.stage.bodies if isinstance(body, Reduce))
    return all(isinstance(e, Cast) and isinstance(e.a, Read) for e in children(product))


def column_of(group: Group) -> int:
    """The axis of the result that runs over columns."""
    return COLUMNS[group.anchor_op] % len(group.outputs[0].shape)


def schedule(group: Group, machine: Machine) -> Choice:
    """The template's default: the tile of the analytic model, panels as packed."""
    shape = group.outputs[0].shape
    rank, column, lanes = len(shape), column_of(group), machine.lanes(32)
    terms = max(terms_of(t.storage) for t in group.input_types) if reads_plainly(group) else 0
    frame = start(group, work(group) if terms else PRODUCTS)
    s, result, sums = frame.schedule, frame.result, frame.sums
    rows = [p for p in range(rank) if p != column]
    inner = rows[-2:] if group.anchor_op == "Conv" and rank > 3 else [long_row_axis(shape, rows)]
    depth = work(group) // max(1, prod(shape)) // max(1, terms)
    packed = next((panel_width(t.storage) for t in group.input_types if panel_width(t.storage)), 0)
    best = tile_for([shape[p] for p in inner], shape[column], depth, machine).vectors
    width = packed or lanes * unpacked_vectors(group, column, machine, best)
    vectors = -(-width // lanes)
    tile = tile_for([shape[p] for p in inner], width, depth, machine)
    extents: dict[str, int] = {}
    outer: list[str] = []
    tiled: list[str] = []
    factors: list[int] = []
    for position in rows:
        name = axis(result, position)
        if position not in inner:
            outer.append(name)
            extents[name] = shape[position]
            continue
        factor = min(tile.rows[inner.index(position)], max(1, row_limit(machine.registers, vectors)))
        factors.append(factor)
        o, i = s.split(result, name, factor)
        outer.append(o)
        tiled.append(i)
        extents[o] = -(-shape[position] // factor)
    panel, within = s.split(result, axis(result, column), width)
    vector, lane = s.split(result, within, lanes)
    extents[panel] = -(-shape[column] // width)
    order = [panel, *outer]
    s.reorder(result, *order, *tiled, vector, lane)
    for name in (*tiled, vector):
        s.unroll(result, name)
    s.vectorize(result, lane)
    over = run_parallel(s, result, extents, order, work(group))
    share_values(frame, order[-1], column, lanes)
    s.compute_at(sums, result, order[-1])
    if terms:
        tile_dots(frame, column, lanes, _DOT_OF[terms])
    else:
        tile_sums(frame, rank, column, lanes)
    knobs = described(rows="x".join(map(str, factors)), vectors=vectors, columns=width, parallel=over)
    return Choice("contraction", s, MODEL, knobs)
