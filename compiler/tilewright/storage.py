"""How a logical tensor lies in memory: order of axes, blocks, halo.

A storage is written as a tag with one letter an axis, outermost first. An axis that is blocked stands in
upper
case, its block follows as a number and the lower-case letter: `acdb` is channel-last for a 4-D tensor,
`Abcd16a` keeps 16 elements of axis 0 innermost, and the block's tail is filled with zeros. `acdb+1.1.1.1`
adds a halo: zeros before and after each of the last two logical axes, in pairs (before, after) an axis,
last axes last. `acdb+1.1.1.1:128` fills it with 128.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np

from tilewright.errors import ParseError, VerifyError
from tilewright.expr import Expr, add, const, floordiv, mod

_TOKEN = re.compile(r"(\d+)([a-z])|([a-zA-Z])")
_HALO = re.compile(r"(\d+\.\d+(?:\.\d+\.\d+)*)(?::(-?\d+))?")  # after the +


@dataclass(frozen=True)
class Storage:
    """tag: order of the axes ('' is row-major); halo: (before, after) elements for each logical axis, or ().

    fill: what the halo holds.
    """

    tag: str = ""
    halo: tuple[tuple[int, int], ...] = ()
    fill: int = 0

    def __post_init__(self) -> None:
        _terms(self.tag)
        if any(before < 0 or after < 0 for before, after in self.halo):
            raise VerifyError(f"storage {self.tag}: a halo cannot be negative: {self.halo}")

    def __str__(self) -> str:
        if not self.has_halo:
            return self.tag or "plain"
        numbers = ".".join(f"{before}.{after}" for before, after in self.halo)
        fill = f":{self.fill}" if self.fill else ""
        return f"{self.tag or 'plain'}+{numbers}{fill}"

    @staticmethod
    def parse(text: str) -> Storage:
        """Inverse of `str`. Raises ParseError."""
        tag, plus, rest = text.partition("+")
        found = _HALO.fullmatch(rest)
        if plus and found is None:
            raise ParseError(f"storage '{text}': a halo is written as two numbers an axis, then its fill")
        numbers, fill = found.groups() if found else ("", None)
        values = [int(n) for n in numbers.split(".")] if numbers else []
        halo = tuple(zip(values[::2], values[1::2], strict=True))
        return Storage("" if tag in ("plain", "") else tag, halo, int(fill or 0))

    @property
    def has_halo(self) -> bool:
        return any(before or after for before, after in self.halo)

    def terms(self, rank: int) -> tuple[tuple[int, int, int], ...]:
        """The memory axes, outermost first: (logical axis, divisor, modulus); modulus 0 is unbounded."""
        if not self.tag:
            return tuple((axis, 1, 0) for axis in range(rank))
        terms = _terms(self.tag)
        if {axis for axis, _, _ in terms} != set(range(rank)):
            raise VerifyError(f"storage '{self.tag}' does not fit a tensor of rank {rank}")
        return terms

    def physical_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Extents in memory for a logical shape; blocks rounded up, halo added."""
        padded = [extent + sum(self._halo(axis)) for axis, extent in enumerate(shape)]
        return tuple(
            modulus or -(-padded[axis] // divisor) for axis, divisor, modulus in self.terms(len(shape))
        )

    def index(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Memory indices of the element at the logical indices."""
        shifted = [add(index, const(self._halo(axis)[0])) for axis, index in enumerate(indices)]
        result = []
        for axis, divisor, modulus in self.terms(len(indices)):
            term = shifted[axis]
            if modulus:
                term = mod(term, const(modulus * divisor))
            result.append(floordiv(term, const(divisor)))
        return tuple(result)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """A plain array laid out in this storage (contiguous, zeros in block tails)."""
        terms = self.terms(array.ndim)
        if not self.tag and not self.has_halo:
            return np.ascontiguousarray(array).reshape(array.shape)  # rank 0 would become rank 1
        blocks = _block_sizes(terms)
        halo = [self._halo(axis) for axis in range(array.ndim)]
        padded = np.pad(array, halo, constant_values=self.fill) if self.has_halo else array
        tails = [(0, -extent % blocks.get(axis, 1)) for axis, extent in enumerate(padded.shape)]
        padded = np.pad(padded, tails) if any(map(any, tails)) else padded
        split, position, at = [], {}, 0
        for axis, extent in enumerate(padded.shape):
            divisors = sorted({d for a, d, _ in terms if a == axis}, reverse=True)
            upper = extent
            for divisor in divisors:
                split.append(-(-upper // divisor))
                position[axis, divisor] = at
                upper, at = divisor, at + 1
        order = [position[axis, divisor] for axis, divisor, _ in terms]
        return np.ascontiguousarray(padded.reshape(split).transpose(order))

    def unpack(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Inverse of `pack`: the plain array of the logical shape."""
        if not self.tag and not self.has_halo:
            return np.ascontiguousarray(array).reshape(tuple(shape))
        flat = np.arange(array.size).reshape(array.shape)
        where = self._positions(flat, shape)
        return np.ascontiguousarray(array.reshape(-1)[where])

    def _positions(self, flat: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        grids = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij", sparse=True)
        where = []
        for axis, divisor, modulus in self.terms(len(shape)):
            index = grids[axis] + self._halo(axis)[0]
            where.append((index % (modulus * divisor) if modulus else index) // divisor)
        return np.broadcast_to(flat[tuple(where)], tuple(shape)) if shape else flat.reshape(())

    def _halo(self, axis: int) -> tuple[int, int]:
        return self.halo[axis] if axis < len(self.halo) else (0, 0)


@cache
def _terms(tag: str) -> tuple[tuple[int, int, int], ...]:
    if "".join(m.group(0) for m in _TOKEN.finditer(tag)) != tag:
        raise ParseError(f"storage tag '{tag}': expected letters and blocks such as Abcd16a")
    found: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(tag):
        number, block, letter = match.groups()
        found.append((ord((block or letter).lower()) - ord("a"), int(number) if number else 0))
    terms: list[tuple[int, int, int]] = []
    inner: dict[int, int] = {}
    for axis, size in reversed(found):
        divisor = inner.get(axis, 1)
        terms.append((axis, divisor, size))
        inner[axis] = divisor * (size or 1)
    outer = [axis for axis, size in found if not size]
    if len(outer) != len(set(outer)) or set(outer) != {axis for axis, _ in found}:
        raise ParseError(f"storage tag '{tag}': every axis must stand exactly once as a letter")
    return tuple(reversed(terms))


def _block_sizes(terms: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    return {axis: divisor for axis, divisor, modulus in terms if not modulus}


PLAIN = Storage()


@dataclass(frozen=True)
class Wish:
    """Storages that a target's best template for a node reads and writes. Output halos are left to the pass.

    inputs: one an operand, None where the operand's own storage is read as it is; halo: elements that input 0
    needs around it for the node's padding to need no guards, (before, after) a logical axis, or (); fill:
    what they hold, None where nothing reads them; gain: cycles that the wished storage of the activations is
    expected to save against plain ones.
    """

    inputs: tuple[Storage | None, ...]
    output: Storage
    halo: tuple[tuple[int, int], ...] = ()
    gain: float = inf
    fill: int | None = 0
