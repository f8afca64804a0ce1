"""The analytic model of AMX tiles: how many rows a tile has, and which tiles of sums stand side by side.

One tile product multiplies `rows` rows of `terms` values with 16 columns. Rows of a tile are neighbours
along one axis of the result, any one, as that gives them a constant distance in memory. Sums of high * wide
tiles are kept at a time, for each of which a step loads one tile or less.

Cycles are Intel's for Sapphire Rapids: a tile product starts every 16 and ends after 52, a load takes 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

from tilewright.machine import Machine
from tilewright.targets.cpu.tile_file import MAX_BYTES, MAX_ROWS

UNIT = "amx_bf16"  # of a Machine
COLUMNS = MAX_BYTES // 4  # sums of a row of a tile
TERMS = MAX_BYTES // 2  # values of a row of an operand
SUMS = 4  # tiles of sums: as many products in flight as hide their latency, and room for operands
PRODUCT, LATENCY, LOAD = 16, 52, 8  # cycles
VECTOR_PRODUCTS = 64  # products of bf16 a cycle that vectors reach


@dataclass(frozen=True)
class Blocks:
    """rows: of a tile; row_axis: the row axis that they run along; high: tiles along high_axis; wide: tiles
    of columns; terms: of a tile product; cycles: of all tile products of the result.
    """

    rows: int
    row_axis: int
    high: int
    high_axis: int
    wide: int
    terms: int
    cycles: float

    @property
    def columns(self) -> int:
        """Columns of a panel of the packed operand."""
        return self.wide * COLUMNS


def blocks_for(
    rows: Sequence[int], columns: int, groups: int, taps: int, channels: int, machine: Machine
) -> Blocks | None:
    """The cheapest blocks for results of `rows` (one or more axes) by `columns`, in groups of columns, each a
    sum of taps * channels products; None where there are none, or vectors do better.
    """
    if not machine.units.get(UNIT) or not rows:
        return None
    return _blocks_for(tuple(rows), columns, groups, taps, channels)


@cache
def _blocks_for(rows: tuple[int, ...], columns: int, groups: int, taps: int, channels: int) -> Blocks | None:
    terms = next((n for n in range(TERMS, 0, -2) if channels % n == 0), 0)
    along, axis = max((_divisor(extent), position) for position, extent in enumerate(rows))
    if along * terms <= VECTOR_PRODUCTS:
        return None
    turns = [extent // along if position == axis else extent for position, extent in enumerate(rows)]
    even = [position for position in (axis, *reversed(range(len(rows)))) if turns[position] % 2 == 0]
    steps = taps * channels // terms
    found = []
    for high in (1, 2) if even else (1,):
        for wide in range(1, min(SUMS // high, -(-columns // COLUMNS)) + 1):
            if groups > 1 and columns // groups % (wide * COLUMNS):
                continue
            loads = high + wide
            step = max(PRODUCT * high * wide, LATENCY, LOAD * loads)
            panels = -(-columns // (wide * COLUMNS))
            cycles = float(prod(turns) // high * panels * steps * step)
            high_axis = even[0] if high > 1 else axis
            blocks = Blocks(along, axis, high, high_axis, wide, terms, cycles)
            found.append((cycles, loads / (high * wide), blocks))
    return min(found, key=lambda f: f[:2])[2] if found else None


def _divisor(extent: int) -> int:
    """The most rows of a tile that divide an axis evenly."""
    return next(n for n in range(min(extent, MAX_ROWS), 0, -1) if extent % n == 0)
