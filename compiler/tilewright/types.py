"""Tensor types: element type, logical shape and storage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from tilewright.dtypes import DType
from tilewright.storage import PLAIN, Storage


@dataclass(frozen=True)
class TensorType:
    """The type of a graph value: element type, logical shape, and how it lies in memory."""

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
    def physical_shape(self) -> tuple[int, ...]:
        return self.storage.physical_shape(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in memory, halo and block padding included."""
        return prod(self.physical_shape) * self.dtype.bytes

    def with_storage(self, storage: Storage) -> TensorType:
        return replace(self, storage=storage)
