"""The eight tile registers of AMX as a function uses them: their shapes, and what they hold.

A tile has a shape, rows by bytes, that one instruction (ldtilecfg) sets for all tiles of a thread before the
first use, so that a number keeps its shape in the whole function. Sums keep a tile as long as their buffer
lives. Operands share the others: one that is loaded again in the same basic block is found where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.errors import CodegenError

TILES = 8
MAX_ROWS, MAX_BYTES = 16, 64
SUM_BYTES = 4  # of a sum, and of the factors side by side that are multiplied for it


@dataclass(frozen=True)
class TileShape:
    rows: int
    bytes: int  # of a row


class TileFile:
    """Which tile registers a function uses."""

    def __init__(self) -> None:
        self.shapes: list[TileShape | None] = [None] * TILES
        self.sums: set[int] = set()  # tiles that belong to a buffer
        self.held: dict[object, int] = {}  # operands that are loaded, least recently used first

    @property
    def used(self) -> bool:
        return any(self.shapes)

    def take(self, shape: TileShape) -> int:
        """A tile for sums; `release` gives it back."""
        number = self._free(shape)
        self.sums.add(number)
        return number

    def release(self, numbers: Iterable[int]) -> None:
        self.sums.difference_update(numbers)

    def operand(self, key: object, shape: TileShape) -> tuple[int, bool]:
        """The tile of an operand, and whether it holds it already. key: what tells operands apart."""
        known = self.held.pop(key, None)
        number = self._free(shape) if known is None else known
        self.held[key] = number
        return number, known is not None

    def forget(self) -> None:
        """Another basic block begins: addresses may have changed."""
        self.held.clear()

    def forked(self) -> None:
        """Tasks ran, this thread's share included, and left no tiles configured."""
        if self.sums:
            raise CodegenError("a buffer in scope 'tile' is alive while a parallel loop runs")
        self.held.clear()

    def config(self) -> bytes:
        """What ldtilecfg reads: palette 1, bytes of a row (16 bits each) from byte 16, rows from byte 48."""
        image = bytearray(64)
        image[0] = 1
        for number, shape in enumerate(self.shapes):
            if shape is not None:
                image[16 + 2 * number] = shape.bytes
                image[48 + number] = shape.rows
        return bytes(image)

    def _free(self, shape: TileShape) -> int:
        """A tile of this shape that holds nothing, or the operand that has waited longest; else a new one."""
        if not (0 < shape.rows <= MAX_ROWS and 0 < shape.bytes <= MAX_BYTES):
            largest, found = f"{MAX_ROWS} rows of {MAX_BYTES} bytes", f"{shape.rows} of {shape.bytes}"
            raise CodegenError(f"a tile has at most {largest}, found {found}")
        fitting = [n for n, s in enumerate(self.shapes) if s == shape and n not in self.sums]
        idle = [n for n in fitting if n not in self.held.values()]
        unused = [n for n, s in enumerate(self.shapes) if s is None]
        oldest = [(key, n) for key, n in self.held.items() if n in fitting]
        if idle or unused:
            number = (idle or unused)[0]
        elif oldest:
            key, number = oldest[0]
            del self.held[key]
        else:
            raise CodegenError(f"tiles of more than {TILES} kinds or sums are needed at a time")
        self.shapes[number] = shape
        return number
