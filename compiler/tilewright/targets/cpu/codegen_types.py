"""How element types look in LLVM, in memory and while computing, and the values made of them.

Half-width floats are computed in f32 and rounded when stored or cast; booleans take a byte in memory and a
bit in registers.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from tilewright.dtypes import BF16, BOOL, F16, DType

_MEMORY = {"f64": "double", "f32": "float", "f16": "i16", "bf16": "i16", "bool": "i8"}
_COMPUTE = {"f64": "double", "f32": "float", "f16": "float", "bf16": "float", "bool": "i1"}
_SUFFIX = {"double": "f64", "float": "f32", "half": "f16"}


@dataclass(frozen=True, slots=True)
class Value:
    """An LLVM operand.

    `ref` is its text without the type; lanes: 0 for a scalar, the vector length otherwise; held: whether
    memory can hold a half-width float as it is, so that nothing is left to round.
    """

    ref: str
    dtype: DType
    lanes: int = 0
    held: bool = False

    @property
    def type(self) -> str:
        return vector_type(compute_type(self.dtype), self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    return _MEMORY.get(dtype.name, f"i{dtype.bits}")


def register_type(dtype: DType) -> str:
    """The LLVM type of an element of a buffer of registers: half-width floats need not be narrow there."""
    return compute_type(dtype) if dtype in (F16, BF16) else memory_type(dtype)


def compute_type(dtype: DType) -> str:
    """The LLVM type of an element in a register."""
    return _COMPUTE.get(dtype.name, f"i{dtype.bits}")


def vector_type(element: str, lanes: int) -> str:
    """`element` itself for lanes 0."""
    return f"<{lanes} x {element}>" if lanes else element


def suffix(type_text: str) -> str:
    """An LLVM type as it stands in the name of an intrinsic: `<8 x float>` is `v8f32`."""
    if type_text.startswith("<"):
        lanes, _, element = type_text[1:-1].partition(" x ")
        return f"v{lanes}{suffix(element)}"
    return _SUFFIX.get(type_text, type_text)


def float_text(value: float, dtype: DType) -> str:
    """A floating-point literal with its exact bits; f32 and narrower literals are first rounded to f32."""
    if dtype.name != "f64" and math.isfinite(value):
        value = _round_to_f32(value)
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


def _round_to_f32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def literal(value: int | float | bool, dtype: DType, lanes: int = 0) -> Value:
    """A constant; integers wrap to the type's width."""
    if dtype.is_float:
        text = float_text(float(value), dtype)
    elif dtype == BOOL:
        text = "true" if value else "false"
    else:
        text = str(_signed(int(value), dtype.bits))
    held = dtype == BF16 and _is_bf16(float(value))
    return Value(f"splat ({compute_type(dtype)} {text})" if lanes else text, dtype, lanes, held)


def _is_bf16(value: float) -> bool:
    """Whether bf16, the upper half of a float32, holds the number."""
    if not math.isfinite(value):
        return True
    return _round_to_f32(value) == value and struct.pack("<f", value)[:2] == bytes(2)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
