"""Decode and Encode: between codes (8- and 4-bit floats, 4- and 2-bit integers) and ordinary numbers.

A code is a byte. Both directions are arithmetic on its bits, so that they fuse with what stands around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

import numpy as np

from tilewright.dtypes import BOOL, DTYPES, F32, F64, I32, U8, U32, U64, DType
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, call, cast, const, mul, read, select, sub
from tilewright.ops.declaration import operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Tensors = Sequence[Tensor | None]
Results = Sequence[TensorType]


@dataclass(frozen=True)
class Format:
    """How a small float is coded: a sign, an exponent of some bits with a bias, a mantissa.

    largest: code of the largest finite number; overflow: code of what is larger, where it does not saturate;
    not_a_number: a code of NaN; nan_from: the first code, of those without a sign, that is NaN.
    negative_zero: whether there is one; otherwise its code, 0x80, is the only NaN.
    """

    mantissa: int
    exponent: int
    bias: int
    largest: int
    overflow: int
    not_a_number: int
    nan_from: int | None = None
    negative_zero: bool = True

    @property
    def magnitude_bits(self) -> int:
        return self.mantissa + self.exponent


FORMATS = {
    "f8e4m3fn": Format(3, 4, 7, 0x7E, 0x7F, 0x7F, 0x7F),
    "f8e4m3fnuz": Format(3, 4, 8, 0x7F, 0x80, 0x80, negative_zero=False),
    "f8e5m2": Format(2, 5, 15, 0x7B, 0x7C, 0x7E, 0x7D),
    "f8e5m2fnuz": Format(2, 5, 16, 0x7F, 0x80, 0x80, negative_zero=False),
    "f4e2m1": Format(1, 2, 1, 0x7, 0x7, 0x8),
}
_SCALE = "f8e8m0"  # a power of two: only an exponent, with bias 127
_ROUNDINGS = ("up", "down", "nearest")
# Bits of f32 numbers: all but the sign, infinity, and the smallest power that f8e8m0 has, 2**-127.
_INFINITY_AND_FRACTION, _INFINITY, _SMALLEST_POWER = 0x7FFFFFFF, 0x7F800000, 0x00400000
CODES = tuple(name for name, dtype in DTYPES.items() if dtype.is_code)


def numbers_of(dtype: DType) -> DType:
    """The type that holds every number of a code: f32 for floats, i32 for integers."""
    return F32 if dtype.name.startswith("f") else I32


def _u32(number: int) -> Expr:
    return const(number, U32)


def _and(a: Expr, b: Expr) -> Expr:
    return binary("and", a, b)


# Decoding.


def _decode_infer(types: Types, _: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    return (TensorType(numbers_of(x.dtype), x.shape),)


def _decode_evaluate(arrays: Arrays, _: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    return (x.astype(numbers_of(DType.of(x.dtype)).numpy),)


def _decoded_integer(code: Expr, dtype: DType) -> Expr:
    """The low bits; of signed codes the highest of them counts negative."""
    sign = 1 << (dtype.file_bits - 1)
    value = _and(cast(code, I32), const(2 * sign - 1, I32))
    if dtype.name.startswith("u"):
        return value
    return sub(binary("xor", value, const(sign, I32)), const(sign, I32))


def _decoded_scale(code: Expr) -> Expr:
    power = call("bitcast", binary("shl", code, _u32(23)), dtype=F32)
    small = select(binary("eq", code, _u32(0)), const(2.0**-127, F32), power)
    return select(binary("eq", code, _u32(255)), const(nan, F32), small)


def _decoded_float(code: Expr, form: Format) -> Expr:
    m = form.mantissa
    magnitude = _and(code, _u32((1 << form.magnitude_bits) - 1))
    bits = add(binary("shl", magnitude, _u32(23 - m)), _u32((127 - form.bias) << 23))
    tiny = mul(cast(magnitude, F32), const(2.0 ** (1 - form.bias - m), F32))
    value = select(binary("lt", magnitude, _u32(1 << m)), tiny, call("bitcast", bits, dtype=F32))
    if form.overflow + 1 == form.nan_from:
        value = select(binary("eq", magnitude, _u32(form.overflow)), const(inf, F32), value)
    if form.nan_from is not None:
        value = select(binary("ge", magnitude, _u32(form.nan_from)), const(nan, F32), value)
    negative = binary("ne", _and(code, _u32(1 << form.magnitude_bits)), _u32(0))
    value = select(negative, value * -1, value)
    if form.negative_zero:
        return value
    return select(binary("eq", code, _u32(form.not_a_number)), const(nan, F32), value)


def _decode_compute(tensors: Tensors, _: Attrs, types: Results) -> tuple[Tensor, ...]:
    x = required(tensors, 0)

    def element(*i: Expr) -> Expr:
        byte = call("bitcast", read(x, i), dtype=U8)
        if x.dtype.name == _SCALE:
            return _decoded_scale(cast(byte, U32))
        form = FORMATS.get(x.dtype.name)
        return _decoded_integer(byte, x.dtype) if form is None else _decoded_float(cast(byte, U32), form)

    return (compute(types[0].shape, element, "decode"),)


operator(
    "Decode",
    "the numbers of codes: f32 of small floats, i32 of small integers",
    [Operand("x", CODES)],
    [Operand("y", ("f32", "i32"))],
    _decode_infer,
    _decode_evaluate,
    fusion=Fusion.ELEMENTWISE,
    compute=_decode_compute,
)


# Encoding.


def _encode_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, to = required(types, 0), attrs["to"]
    if not to.is_code:
        raise VerifyError(f"Encode: {to} is no code, use Cast")
    allowed = (F32, F64) if to.name in FORMATS else (numbers_of(to),)
    if x.dtype not in allowed:
        raise VerifyError(f"Encode: {to} is made of {' or '.join(map(str, allowed))}, not of {x.dtype}")
    if attrs["round_mode"] not in _ROUNDINGS:
        raise VerifyError(
            f"Encode: rounding '{attrs['round_mode']}' is unknown, expected one of {_ROUNDINGS}"
        )
    return (TensorType(to, x.shape),)


def _encode_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, to = required(arrays, 0), attrs["to"]
    with np.errstate(all="ignore"):
        if to.name == _SCALE:
            bits = np.asarray(x, np.float32).view(np.uint32)
            return (_scale_numpy(bits, attrs).astype(np.uint8).view(to.numpy),)
        form = FORMATS.get(to.name)
        if form is None:
            mask = (1 << to.file_bits) - 1
            return ((x & mask).astype(np.uint8).view(to.numpy),)
        if attrs["saturate"]:
            largest = np.uint8(form.largest).reshape(1).view(to.numpy).astype(x.dtype)[0]
            x = np.clip(x, -largest, largest)
        return (_rounded_once(x).astype(to.numpy),)


def _rounded_once(x: np.ndarray) -> np.ndarray:
    """f32 from which rounding further gives what one rounding of x would: f64 is rounded to odd."""
    near = x.astype(np.float32)
    inexact = (near != x) & np.isfinite(near)
    bits = near.view(np.uint32)
    toward_zero = bits - (np.abs(near) > np.abs(x))
    odd = np.where(inexact, toward_zero | 1, bits).astype(np.uint32)
    return odd.view(np.float32)


def _scale_numpy(bits: np.ndarray, attrs: Attrs) -> np.ndarray:
    magnitude = bits & _INFINITY_AND_FRACTION
    tiny = magnitude < _SMALLEST_POWER
    exponent = magnitude >> 23
    # 2**-127 is a denormal f32: its fraction is worth half of the others'
    fraction = np.where(exponent == 0, (magnitude - _SMALLEST_POWER) * 2, magnitude & 0x7FFFFF)
    limits = {"up": 0, "down": 0x7FFFFF, "nearest": 0x3FFFFF}
    code = exponent + (~tiny & (fraction > limits[attrs["round_mode"]]))
    if attrs["saturate"]:
        code = np.minimum(np.where(tiny, 0, code), 0xFE)
    else:
        code = np.where(tiny, 0xFF, np.minimum(code, 0xFF))
    return np.asarray(np.where(magnitude > _INFINITY, 0xFF, code))


def _encoded_scale(x: Expr, attrs: Attrs) -> Expr:
    """The exponent, rounded; a sign is lost. The fraction of 2**-127, a denormal f32, is worth half."""
    magnitude = _and(call("bitcast", x, dtype=U32), _u32(_INFINITY_AND_FRACTION))
    tiny = binary("lt", magnitude, _u32(_SMALLEST_POWER))
    exponent = binary("shr", magnitude, _u32(23))
    smallest = mul(sub(magnitude, _u32(_SMALLEST_POWER)), _u32(2))
    fraction = select(binary("eq", exponent, _u32(0)), smallest, _and(magnitude, _u32(0x7FFFFF)))
    limit = {"up": 0, "down": 0x7FFFFF, "nearest": 0x3FFFFF}[attrs["round_mode"]]
    code = add(exponent, cast(binary("gt", fraction, _u32(limit)), U32))
    largest, below = (0xFE, 0) if attrs["saturate"] else (0xFF, 0xFF)
    code = select(tiny, _u32(below), binary("min", code, _u32(largest)))
    return cast(select(binary("gt", magnitude, _u32(_INFINITY)), _u32(0xFF), code), U8)


def _encoded_float(x: Expr, form: Format, saturate: bool) -> Expr:
    """Normal codes by a bias for rounding added to the bits, tiny ones by counting the smallest of them."""
    whole, mantissa, bias = (U32, 23, 127) if x.dtype == F32 else (U64, 52, 1023)

    def number(value: int) -> Expr:
        return const(value, whole)

    raw = call("bitcast", x, dtype=whole)
    top = whole.bits - 1
    magnitude = _and(raw, number((1 << top) - 1))
    drop = mantissa - form.mantissa
    odd = _and(binary("shr", magnitude, number(drop)), number(1))
    biased = add(add(magnitude, odd), number((1 << (drop - 1)) - 1))
    normal = sub(binary("shr", biased, number(drop)), number((bias - form.bias) << form.mantissa))
    value = call("bitcast", magnitude, dtype=x.dtype)
    counted = call("round", mul(value, const(2.0 ** (form.bias - 1 + form.mantissa), x.dtype)))
    is_tiny = binary("lt", value, const(2.0 ** (1 - form.bias), x.dtype))
    code = select(is_tiny, cast(select(is_tiny, counted, const(0, x.dtype)), whole), normal)
    limit = form.largest if saturate else form.overflow
    code = select(binary("gt", code, number(form.largest)), number(limit), code)
    sign = binary("shl", binary("shr", raw, number(top)), number(form.magnitude_bits))
    if form.negative_zero:
        signed = binary("or", code, sign)
    else:
        signed = select(binary("eq", code, number(0)), code, binary("or", code, sign))
    return cast(select(call("isnan", x, dtype=BOOL), number(form.not_a_number), signed), U8)


def _encode_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, to = required(tensors, 0), attrs["to"]
    form = FORMATS.get(to.name)

    def element(*i: Expr) -> Expr:
        value = read(x, i)
        if to.name == _SCALE:
            byte = _encoded_scale(value, attrs)
        elif form is None:
            byte = cast(_and(value, const((1 << to.file_bits) - 1, I32)), U8)
        else:
            byte = _encoded_float(value, form, attrs["saturate"])
        return call("bitcast", byte, dtype=to)

    return (compute(types[0].shape, element, "encode"),)


operator(
    "Encode",
    "numbers as codes: floats rounded to even, saturating or not; integers keep their low bits",
    [Operand("x", ("f32", "f64", "i32"))],
    [Operand("y", CODES)],
    _encode_infer,
    _encode_evaluate,
    {
        "to": Attr("dtype", required=True),
        "saturate": Attr("bool", True),
        "round_mode": Attr("str", "up"),
    },
    Fusion.ELEMENTWISE,
    compute=_encode_compute,
)
