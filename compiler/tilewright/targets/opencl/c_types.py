"""Element types, literals and identifiers in OpenCL C 1.2."""

from __future__ import annotations

import re
from math import isinf, isnan

import numpy as np

from tilewright.dtypes import BF16, BOOL, F16, F32, F64, I64, DType

_VALUE = {
    "f64": "double",
    "f32": "float",
    "f16": "float",
    "bf16": "float",
    "bool": "int",
    "i8": "char",
    "i16": "short",
    "i32": "int",
    "i64": "long",
    "u8": "uchar",
    "u16": "ushort",
    "u32": "uint",
    "u64": "ulong",
}
_MEMORY = {"f16": "half", "bf16": "ushort", "bool": "uchar"}


def value_type(dtype: DType) -> str:
    """The C type that an element has in an expression; halves are computed in float."""
    return "uchar" if dtype.is_code else _VALUE[dtype.name]


def memory_type(dtype: DType) -> str:
    """The C type of an element in a buffer."""
    return _MEMORY.get(dtype.name) or value_type(dtype)


def private_type(dtype: DType) -> str:
    """The C type of an element in a private array: `half` is storage only, so it is kept as float there."""
    return "float" if dtype in (F16, BF16) else memory_type(dtype)


def literal(value: int | float | bool, dtype: DType) -> str:
    """A constant, exact in its type."""
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    if dtype == BOOL:
        return str(int(value))
    number = int(value)
    if dtype.kind in ("uint", "code"):
        return f"(({value_type(dtype)}){number}{'UL' if dtype.bits == 64 else 'u'})"
    suffix = "L" if dtype.bits == 64 else ""
    if number == -(2 ** (dtype.bits - 1)) and dtype.bits >= 32:  # C has no literal of the smallest number
        return f"(-{-(number + 1)}{suffix}-1)"
    text = f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"
    return text if dtype.bits >= 32 else f"(({value_type(dtype)}){text})"


def _float_literal(value: float, dtype: DType) -> str:
    double = dtype == F64
    if isnan(value):
        return "((double)NAN)" if double else "NAN"
    if isinf(value):
        sign = "-" if value < 0 else ""
        return f"({sign}(double)INFINITY)" if double else f"({sign}INFINITY)"
    exact = value if double else float(np.float32(value) if dtype == F32 else value)
    text = exact.hex() if double else f"{exact.hex()}f"
    return f"({text})" if text.startswith("-") else text


def index_literal(number: int) -> str:
    """An index constant: `int` where it fits, otherwise `long`."""
    if -(2**31) < number < 2**31:
        return str(number) if number >= 0 else f"({number})"
    return literal(number, I64)


class Names:
    """Identifiers for names with any characters: prefixed, so that no keyword is met, and distinct."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def fresh(self, prefix: str, name: str) -> str:
        """An identifier that was not handed out before."""
        base = f"{prefix}_{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')}"[:80]
        chosen, count = base, 0
        while chosen in self._taken:
            count += 1
            chosen = f"{base}__{count}"
        self._taken.add(chosen)
        return chosen
