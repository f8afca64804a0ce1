"""The analytic model of AMX tiles: which results are the rows of a tile, and which tiles of sums stand side
by side.

One tile product multiplies `rows` rows of `terms` values with 16 columns. Rows of a tile are neighbours along
an axis of the result, as that gives them a constant distance in memory; or along two axes, where rows of the
image follow each other in memory at a multiple of that distance (the schedule primitive `flatten`): the
results between the end of one row of the image and the start of the next are computed and ignored. Tiles that
do not divide the rows overlap (`overlap`). Sums of high * wide tiles are kept at a time, for each of which a
step loads one tile or less; the second tile of a block may be in the next row of the image.

Cycles are Intel's for Sapphire Rapids: a tile product starts every 16 and ends after 52, a load from the
first-level cache takes 8. From the second level, at a measured 47 bytes a cycle, it takes 22; four such loads
for four products give 73 % of the rate of products, and 75 % were measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from tilewright.machine import Machine
from tilewright.targets.cpu.tile_file import MAX_BYTES, MAX_ROWS, SUM_BYTES

COLUMNS = MAX_BYTES // SUM_BYTES  # sums of a row of a tile
SUMS = 4  # tiles of sums: as many products in flight as hide their latency, and room for operands
PRODUCT, LATENCY, LOAD = 16, 52, 8  # cycles
NEAR_BYTES = 1 << 15  # of operands or sums that stay in the first-level cache
FAR_LOAD, FAR_LINE = 22, 8  # cycles of a tile from the second level, and of a line of sums to it and back
MAX_STAGED = 1 << 18  # bytes of sums that are computed together, on the stack of a thread


@dataclass(frozen=True)
class Unit:
    """A kind of tile product. name: among the units of a Machine; group: factors side by side that are
    multiplied for one sum; vectors: products a cycle that vectors reach; intrinsic: its name.
    """

    name: str
    group: int
    vectors: int
    intrinsic: str

    @property
    def terms(self) -> int:
        """Values of a row of an operand, at most."""
        return COLUMNS * self.group

    @property
    def bytes(self) -> int:
        """Of a value."""
        return MAX_BYTES // self.terms


PAIRS = Unit("amx_bf16", 2, 64, "dot_tile_pairs")
QUADS = Unit("amx_int8", 4, 128, "dot_tile_quads")
UNITS = {unit.group: unit for unit in (PAIRS, QUADS)}


@dataclass(frozen=True)
class Product:
    """What is multiplied: results of `rows`, one or more axes, by `columns`, in groups of columns, each a sum
    of taps * channels products.

    pitches: one a row axis, how many of its elements a step of the axis before takes in memory, 0 where that
    is no whole number or the axes are no neighbours; joined: of so many taps all channels follow each other
    in memory, 1 where they do not.
    """

    rows: tuple[int, ...]
    pitches: tuple[int, ...]
    columns: int
    groups: int = 1
    taps: int = 1
    channels: int = 1
    joined: int = 1

    @property
    def size(self) -> int:
        """Multiply-adds."""
        return prod(self.rows) * self.columns * self.taps * self.channels


@dataclass(frozen=True)
class Run:
    """Rows that are computed together. axis: that they run along, an index of the row axes; chunk: how many
    of its elements; pitch: if not 0, they run along two axes, and are `chunk` rows of `axis` - 1, which start
    `pitch` elements apart; seams: whether these do not follow each other in memory, so that a tile must not
    reach from one to the next.
    """

    axis: int
    chunk: int
    pitch: int = 0
    seams: bool = False

    def split(self, rows: Sequence[int]) -> tuple[int, int]:
        """The axis that is cut into chunks, and how many chunks it has."""
        cut = self.axis - 1 if self.pitch else self.axis
        return cut, rows[cut] // self.chunk

    def length(self, rows: Sequence[int]) -> int:
        """Elements, ignored ones included."""
        return (self.chunk - 1) * self.pitch + rows[self.axis] if self.pitch else self.chunk


@dataclass(frozen=True)
class Blocks:
    """run: the rows of a chunk; rows: of a tile; even: whether whole tiles make up the run; high: tiles along
    the run; wide: tiles of columns; terms: of a tile product of `unit`; joined: whether they run through
    taps; tapped: whether there is more than one; cycles: of all tile products of the result.
    """

    run: Run
    rows: int
    even: bool
    high: int
    wide: int
    terms: int
    joined: bool
    tapped: bool
    unit: Unit
    cycles: float

    @property
    def columns(self) -> int:
        """Columns of a panel of the packed operand."""
        return self.wide * COLUMNS

    @property
    def chunk(self) -> int:
        """Terms that are multiplied tap by tap before the next ones, so that windows are read from near; 0
        where there is one tap, or terms run through several.
        """
        return self.terms if self.tapped and not self.joined else 0


def blocks_for(found: Product, machine: Machine, unit: Unit = PAIRS, panel: int = 0) -> Blocks | None:
    """The cheapest blocks for a product; None where there are none, or vectors do better.

    panel: columns of the packed operand, 0 where it is not packed yet.
    """
    return _best(found, unit, panel) if machine.units.get(unit.name) and found.rows else None


@cache
def _best(found: Product, unit: Unit, panel: int) -> Blocks | None:
    widths = [wide for wide in range(1, SUMS + 1) if panel in (0, wide * COLUMNS)]
    sizes = product(_runs(found), (1, 2), widths)
    costs = [cost for size in sizes if (cost := _cost(found, unit, *size)) is not None]
    best = min(costs, key=lambda cost: cost[0])[1] if costs else None
    return best if best is not None and found.size > unit.vectors * best.cycles else None


def _cost(
    found: Product, unit: Unit, run: Run, high: int, wide: int
) -> tuple[tuple[float, ...], Blocks] | None:
    """What decides between blocks, the less the better, and the blocks; None where there are none."""
    length, width = run.length(found.rows), wide * COLUMNS
    terms, joined = _terms(found, unit)
    tile = _tile_rows(run, length, high)
    whole = found.groups == 1 or found.columns // found.groups % width == 0
    staged = length * width * SUM_BYTES
    room = high * wide <= SUMS and high * tile <= length and staged <= MAX_STAGED
    if not (terms and whole and room and width < found.columns + COLUMNS):
        return None
    steps = found.taps * found.channels // terms
    near = steps * terms * width * unit.bytes <= NEAR_BYTES
    loads = LOAD * high + (LOAD if near else FAR_LOAD) * wide
    step = max(PRODUCT * high * wide, LATENCY, loads)
    cut, chunks = run.split(found.rows)
    panels = -(-found.columns // width)
    others = (
        panels * prod(found.rows) // found.rows[cut] * chunks // (found.rows[run.axis] if run.pitch else 1)
    )
    cycles = float(others * -(-length // (high * tile)) * steps * step)
    far = others * staged / MAX_BYTES * FAR_LINE if staged > NEAR_BYTES else 0
    outer = [n for axis, n in enumerate(found.rows) if axis not in (cut, run.axis)]
    cost = (cycles + far) * (1 + 1 / max(panels, chunks, *outer))  # the last turn may be one thread's alone
    order = (cost, loads / (high * wide), bool(run.pitch), -run.axis, length)
    return order, Blocks(
        run, tile, length % tile == 0, high, wide, terms, joined, found.taps > 1, unit, cycles
    )


def _terms(found: Product, unit: Unit) -> tuple[int, bool]:
    """Terms of a tile product, which divide a sum, and whether they run through taps; 0 for none."""

    def most(values: int) -> int:
        return next((n for n in range(unit.terms, 0, -unit.group) if values % n == 0), 0)

    apart, together = most(found.channels), most(found.channels * found.joined)
    return (together, True) if together > apart else (apart, False)


def _tile_rows(run: Run, length: int, high: int) -> int:
    """Rows of a tile: as few as the number of blocks allows."""
    if run.seams:
        return next(n for n in range(MAX_ROWS, 0, -1) if run.pitch % n == 0)
    return -(-length // (high * -(-length // (high * MAX_ROWS))))


def _runs(found: Product) -> Iterator[Run]:
    """All that rows can run along, in chunks that divide an axis."""
    for axis, extent in enumerate(found.rows):
        yield from (Run(axis, chunk) for chunk in _divisors(extent))
        pitch = found.pitches[axis]
        if axis and pitch >= extent:
            yield from (Run(axis, chunk, pitch) for chunk in _divisors(found.rows[axis - 1])[1:])
        if axis and pitch > extent:
            yield from (Run(axis, chunk, extent, True) for chunk in _divisors(found.rows[axis - 1])[1:])


def _divisors(extent: int) -> list[int]:
    return [n for n in range(1, min(extent, MAX_STAGED // MAX_BYTES) + 1) if extent % n == 0]
