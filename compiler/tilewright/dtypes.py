"""Element types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import VerifyError


@dataclass(frozen=True)
class DType:
    """An element type.

    name: as printed, e.g. `f32`; kind: `float`, `int`, `uint`, `bool` or `code`; bits: width in memory.
    A code is a narrow number that is only stored, moved and converted: an 8- or 4-bit float, a 4- or 2-bit
    integer. It takes a whole byte everywhere but in files.
    """

    name: str
    kind: str
    bits: int

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_code(self) -> bool:
        return self.kind == "code"

    @property
    def file_bits(self) -> int:
        """Width of an element in a file, where narrow codes are packed from the low bits of a byte on."""
        return _PACKED.get(self.name, self.bits)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy element type (bf16 and codes through ml_dtypes)."""
        return _NUMPY[self.name]

    def cast(self, values: object) -> np.ndarray:
        """Values converted to this type as Cast does, on every target alike.

        Real numbers become integers by truncation through i32 (u32, i64: through i64), whose bits then wrap.
        What does not fit there, NaN included, becomes its smallest number; for u64, what lies outside -2**63
        to 2**64 becomes 2**63.
        """
        array = np.asarray(values)
        with np.errstate(all="ignore"):
            if not self.is_integer or array.dtype.kind in "iub":
                return array.astype(self.numpy, copy=False)
            real = array if array.dtype.kind == "f" else array.astype(np.float32)
            return _truncated(real, self)

    @staticmethod
    def of(dtype: object) -> DType:
        """The element type of a NumPy dtype. Raises VerifyError for types without a counterpart."""
        found = _BY_NUMPY.get(np.dtype(dtype))  # type: ignore[call-overload]
        if found is None:
            raise VerifyError(f"element type {dtype} is not supported; known: {', '.join(DTYPES)}")
        return found


F64, F32, F16 = DType("f64", "float", 64), DType("f32", "float", 32), DType("f16", "float", 16)
BF16 = DType("bf16", "float", 16)
I8, I16, I32, I64 = (DType(f"i{bits}", "int", bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{bits}", "uint", bits) for bits in (8, 16, 32, 64))
BOOL = DType("bool", "bool", 8)

_CODES: dict[str, np.dtype[Any]] = {
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f4e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "i4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "i2": np.dtype(ml_dtypes.int2),
    "u2": np.dtype(ml_dtypes.uint2),
}
_PACKED = {"f4e2m1": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2}

DTYPES = {t.name: t for t in (F64, F32, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)}
DTYPES |= {name: DType(name, "code", 8) for name in _CODES}
_NUMPY: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "bool": np.dtype(np.bool_),
} | {f"{p}{b}": np.dtype(f"{'u' if p == 'u' else ''}int{b}") for p in "iu" for b in (8, 16, 32, 64)}
_NUMPY |= _CODES
_BY_NUMPY = {numpy: DTYPES[name] for name, numpy in _NUMPY.items()}


def _truncated(real: np.ndarray, dtype: DType) -> np.ndarray:
    high = (real >= 2.0**63) & (real < 2.0**64) if dtype == U64 else np.zeros(real.shape, np.bool_)
    middle = np.int64 if dtype.bits == 64 or dtype == U32 else np.int32
    limits = np.iinfo(middle)
    low = np.where(high, real - 2.0**63, real) if dtype == U64 else real
    inside = np.abs(low) < -float(limits.min)
    whole = np.where(inside, np.where(inside, low, 0).astype(middle), limits.min)
    return np.where(high, whole ^ limits.min, whole).astype(dtype.numpy)
