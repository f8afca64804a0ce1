"""Tensor types: element type, logical shape and storage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Self

from tilewright.dtypes import DType
from tilewright.storage import PLAIN, Storage


class Bounded(int):
    """An extent that is known at run time only: at most this number; memory is planned for all of it.

    name: of the count; extents of one name are equal in every run. Arithmetic goes by the bound; only the
    same extent is equal to it, no plain number is.
    """

    name: str

    def __new__(cls, bound: int, name: str) -> Self:
        extent = super().__new__(cls, bound)
        extent.name = name
        return extent

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return int(self), self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounded) and self.name == other.name and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((int(self), self.name))

    def __repr__(self) -> str:
        return f"?{self.name}<={int(self)}"

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)


@dataclass(frozen=True)
class TensorType:
    """The type of a graph value: element type, logical shape, and how it lies in memory.

    An extent may be Bounded; everything about memory goes by the bound.
    """

    dtype: DType
    shape: tuple[int, ...]
    storage: Storage = field(default=PLAIN)

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return text if self.storage == PLAIN else f"{text}@{self.storage}"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of logical elements."""
        return prod(self.shape)

    @property
    def is_bounded(self) -> bool:
        """Whether some extent is known at run time only."""
        return any(isinstance(extent, Bounded) for extent in self.shape)

    def at_bound(self) -> TensorType:
        """The same type with the largest possible extents."""
        return replace(self, shape=tuple(map(int, self.shape))) if self.is_bounded else self

    def holds(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape is a value of the type, as far as extents go."""
        if len(shape) != len(self.shape):
            return False
        pairs = zip(self.shape, shape, strict=True)
        return all(found <= int(d) if isinstance(d, Bounded) else found == d for d, found in pairs)

    @property
    def physical_shape(self) -> tuple[int, ...]:
        return self.storage.physical_shape(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in memory, halo and block padding included."""
        return prod(self.physical_shape) * self.dtype.bytes

    def with_storage(self, storage: Storage) -> TensorType:
        return replace(self, storage=storage)
