"""The analytic model of register tiles: how many rows and vectors of results one inner loop keeps in
registers.

One step of the reduction reads `vectors` vectors of the packed operand and broadcasts one scalar a row, for
rows * vectors
multiply-adds. A tile is good when its multiply-adds hide its loads and their own latency, and when its
tails are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from tilewright.machine import Machine

LATENCY = 8  # independent multiply-adds that keep two units of four cycles busy
MAX_VECTORS = 4


@dataclass(frozen=True)
class Tile:
    """rows: extents of the tile along the row axes, outer to inner; vectors: vector registers of columns."""

    rows: tuple[int, ...]
    vectors: int


@cache
def choose_tile(
    rows: tuple[int, ...], columns: int, depth: int, registers: int, lanes: int, cache_bytes: int
) -> Tile:
    """The cheapest tile for results of `rows` (one or two row axes) by `columns`, each a sum of `depth`
    products.
    """
    best: tuple[float, Tile] | None = None
    total_vectors = -(-columns // lanes)
    for vectors in range(1, min(MAX_VECTORS, total_vectors) + 1):
        limit = row_limit(registers, vectors)
        for tile in _row_tiles(rows, limit):
            cost = _cost(rows, tile, total_vectors, vectors, depth * vectors * lanes * 4, cache_bytes)
            if best is None or cost < best[0]:
                best = (cost, Tile(tile, vectors))
    assert best is not None
    return best[1]


def row_limit(registers: int, vectors: int) -> int:
    """Rows whose sums fit beside one step's vectors and a broadcast scalar."""
    return (registers - 1 - vectors) // vectors


def tile_for(rows: Sequence[int], columns: int, depth: int, machine: Machine) -> Tile:
    """`choose_tile` for a machine and 32-bit elements."""
    return choose_tile(
        tuple(rows[-2:]), columns, depth, machine.registers, machine.lanes(32), machine.caches[0]
    )


def panel_vectors(wanted: int, columns: int, groups: int, lanes: int) -> int:
    """Vectors of a panel, `wanted` at most, that does not reach into the next of several groups of columns; 0
    where none fits.
    """
    if groups == 1:
        return wanted
    return next((n for n in range(wanted, 0, -1) if columns % (n * lanes) == 0), 0)


def _row_tiles(rows: tuple[int, ...], limit: int) -> list[tuple[int, ...]]:
    spans = [range(1, min(extent, limit) + 1) for extent in rows]
    tiles = [t for t in product(*spans) if prod(t) <= max(limit, 1)]
    if len(rows) < 2:
        return tiles
    return [t for t in tiles if t[0] == 1 or t[1] == rows[1]]  # several rows only when one is short


def _cost(
    rows: tuple[int, ...], tile: tuple[int, ...], total: int, vectors: int, panel_bytes: int, cache_bytes: int
) -> float:
    """Cycles for one step of the reduction over the whole result."""
    per_row = [
        [(extent // t, t), (1, extent % t)] if extent % t else [(extent // t, t)]
        for extent, t in zip(rows, tile, strict=True)
    ]
    panels = [(total // vectors, vectors)] + ([(1, total % vectors)] if total % vectors else [])
    streamed = 0.0 if panel_bytes <= cache_bytes // 2 else 1.0
    cost = 0.0
    for parts in product(*per_row):
        count, size = 1, 1
        for turns, extent in parts:
            count, size = count * turns, size * extent
        for panel_count, width in panels:
            work = size * width / 2
            loads = (size + width) * 0.65  # two ports, shared with address work
            cost += count * panel_count * (max(work, loads, LATENCY / 2) + 0.5 + streamed * width)
    return cost
