"""Real numbers as integers and back: y = saturate(round(x / scale) + zero point).

A scale covers the whole tensor (one element), each index of an axis (rank 1), or blocks along an axis (rank
of x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import F32, F64, I32, U8, DType
from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, attributes, operator, required
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.types import TensorType

AXIS, BLOCK, TO, PRECISION = "axis", "block_size", "to", "precision"


@dataclass(frozen=True)
class Granularity:
    """How a scale is spread over a tensor. block: indices of `axis` that share an element; 0: all indices."""

    axis: int
    block: int


def granularity(name: str, x: Sequence[int], scale: Sequence[int], axis: int, block: int) -> Granularity:
    """Raises VerifyError when the scale's shape fits none of the three forms."""
    if list(scale) in ([], [1]):
        return Granularity(0, 0)
    if 0 <= axis < len(x) and len(scale) == 1 and scale[0] == x[axis] and not block:
        return Granularity(axis, 1)
    if 0 <= axis < len(x) and len(scale) == len(x):
        size = block or -(-x[axis] // max(1, scale[axis]))
        blocked = [-(-n // size) if position == axis else n for position, n in enumerate(x)]
        if size > 0 and list(scale) == blocked:
            return Granularity(axis, size)
    blocks = f", blocks of {block}" if block else ""
    raise VerifyError(f"{name}: a scale of shape {list(scale)} does not fit {list(x)} (axis {axis}{blocks})")


def limits(dtype: DType) -> tuple[int, int]:
    """Smallest and largest number of an integer type."""
    half = 1 << (dtype.bits - 1)
    return (-half, half - 1) if dtype.kind == "int" else (0, 2 * half - 1)


def spread_numpy(array: np.ndarray, shape: Sequence[int], spread: Granularity) -> np.ndarray:
    """A scale or zero point as an array that broadcasts to `shape`."""
    if spread.block == 0:
        return array.reshape(())
    if array.ndim == 1 and spread.block == 1:
        return array.reshape(-1, *(1 for _ in shape[spread.axis + 1 :]))
    repeated = np.repeat(array, spread.block, spread.axis)
    return np.asarray(repeated[(slice(None),) * spread.axis + (slice(shape[spread.axis]),)])


def spread(build: Builder, value: Value, shape: Sequence[int], over: Granularity) -> Value:
    """`spread_numpy` as graph nodes."""
    axis, block = over.axis, over.block
    if block == 0:
        return value if value.shape == () else build.op("Reshape", value, shape=())
    if len(value.shape) == 1 and block == 1:
        return build.op("Reshape", value, shape=(*value.shape, *(1 for _ in shape[axis + 1 :])))
    before, count, after = value.shape[:axis], value.shape[axis], value.shape[axis + 1 :]
    split = build.op("Reshape", value, shape=(*before, count, 1, *after))
    wide = build.op("Expand", split, shape=(*before, count, block, *after))
    whole = build.op("Reshape", wide, shape=(*before, count * block, *after))
    if count * block == shape[axis]:
        return whole
    part: dict[str, Any] = {
        "starts": (0,) * len(shape),
        "ends": tuple(shape),
        "axes": tuple(range(len(shape))),
        "steps": (1,) * len(shape),
    }
    return build.op("Slice", whole, **part)


def saturated_numpy(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Whole numbers limited to an integer type; NaN becomes 0."""
    low, high = limits(dtype)
    return np.asarray(np.nan_to_num(np.clip(values, low, high), nan=0.0).astype(dtype.numpy))


def saturated(build: Builder, value: Value, dtype: DType) -> Value:
    """`saturated_numpy` as graph nodes; value is f32 or f64, dtype has 16 bits at most.

    Clip hands NaN on, of which Cast makes the lowest number of i32: its low bits are 0.
    """
    low, high = (build.constant(np.array(n).astype(value.dtype.numpy)) for n in limits(dtype))
    return build.op("Cast", build.op("Clip", value, low, high), to=dtype)


def _check_zero(name: str, scale: TensorType, zero: TensorType | None, dtype: DType) -> None:
    if zero is None:
        return
    if zero.dtype != dtype:
        raise VerifyError(f"{name}: the zero point has element type {zero.dtype}, expected {dtype}")
    if zero.shape != scale.shape and not zero.size == scale.size == 1:
        raise VerifyError(
            f"{name}: zero point {list(zero.shape)} and scale {list(scale.shape)} differ in shape"
        )


def quotient_type(scale: DType, precision: DType | None) -> DType:
    """The type in which a quotient is rounded; integer scales divide in f64."""
    precision = precision or scale
    return precision if precision.is_float else F64


def _quantize_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, scale = required(types, 0), required(types, 1)
    to: DType = attrs[TO]
    if not to.is_integer or to.bits > 16:
        raise VerifyError(f"QuantizeLinear: cannot quantise to {to}, expected an integer of at most 16 bits")
    granularity("QuantizeLinear", x.shape, scale.shape, attrs[AXIS], attrs[BLOCK])
    _check_zero("QuantizeLinear", scale, types[2], to)
    return (TensorType(to, x.shape),)


def _quantize_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, scale, zero = required(arrays, 0), required(arrays, 1), arrays[2]
    over = granularity("QuantizeLinear", x.shape, scale.shape, attrs[AXIS], attrs[BLOCK])
    scale_type = DType.of(scale.dtype)
    precision = scale_type if scale_type == F64 else quotient_type(scale_type, attrs[PRECISION])
    work = F64 if precision == F64 else F32
    with np.errstate(all="ignore"):
        quotient = x.astype(work.numpy) / spread_numpy(scale, x.shape, over).astype(work.numpy)
        y = np.rint(quotient.astype(precision.numpy).astype(work.numpy))
        if zero is not None:
            y = y + spread_numpy(zero, x.shape, over).astype(work.numpy)
        return (saturated_numpy(y, attrs[TO]),)


def _quantize_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    attrs = attributes(node)
    x, scale, zero = node.operand(0), node.operand(1), node.inputs[2] if len(node.inputs) > 2 else None
    over = granularity("QuantizeLinear", x.shape, scale.shape, attrs[AXIS], attrs[BLOCK])
    y = build.op("Round", quotient(build, x, scale, over, quotient_type(scale.dtype, attrs[PRECISION])))
    if zero is not None:
        y = build.op("Add", y, as_type(build, spread(build, zero, x.shape, over), y.dtype))
    return (saturated(build, y, attrs[TO]),)


def quotient(build: Builder, x: Value, scale: Value, over: Granularity, precision: DType) -> Value:
    """x / scale rounded to `precision`, as f32 or f64."""
    work = F64 if precision == F64 else F32
    divisor = as_type(build, spread(build, scale, x.shape, over), work)
    ratio = build.op("Div", as_type(build, x, work), divisor)
    return as_type(build, as_type(build, ratio, precision), work)


def as_type(build: Builder, value: Value, dtype: DType) -> Value:
    """The value in another element type; itself when that is its type already."""
    return value if value.dtype == dtype else build.op("Cast", value, to=dtype)


def _dequantize_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, scale = required(types, 0), required(types, 1)
    if not x.dtype.is_integer and x.dtype != F32:
        raise VerifyError(f"DequantizeLinear: x has element type {x.dtype}, expected an integer or f32")
    granularity("DequantizeLinear", x.shape, scale.shape, attrs[AXIS], attrs[BLOCK])
    _check_zero("DequantizeLinear", scale, types[2], x.dtype)
    return (TensorType(attrs[TO], x.shape),)


def _dequantize_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, scale, zero = required(arrays, 0), required(arrays, 1), arrays[2]
    over = granularity("DequantizeLinear", x.shape, scale.shape, attrs[AXIS], attrs[BLOCK])
    work = np.float64 if scale.dtype == np.float64 else np.float32
    whole = x.astype(np.int32) if x.dtype.kind in "iu" else x.astype(work)
    if zero is not None:
        whole = whole - spread_numpy(zero, x.shape, over).astype(whole.dtype)
    with np.errstate(all="ignore"):
        y = whole.astype(work) * spread_numpy(scale, x.shape, over).astype(work)
        return (y.astype(work if work is np.float64 else attrs[TO].numpy),)


def _dequantize_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    attrs = attributes(node)
    x, scale, zero = node.operand(0), node.operand(1), node.inputs[2] if len(node.inputs) > 2 else None
    over = granularity("DequantizeLinear", x.shape, scale.shape, attrs[AXIS], attrs[BLOCK])
    whole = as_type(build, x, I32 if x.dtype.is_integer else F32)
    if zero is not None:
        whole = build.op("Sub", whole, as_type(build, spread(build, zero, x.shape, over), whole.dtype))
    factor = as_type(build, spread(build, scale, x.shape, over), F32)
    return (as_type(build, build.op("Mul", as_type(build, whole, F32), factor), attrs[TO]),)


def _dynamic_infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
    return TensorType(U8, required(types, 0).shape), TensorType(F32, ()), TensorType(U8, ())


def _dynamic_evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    with np.errstate(all="ignore"):
        low, high = np.minimum.reduce(x, None, initial=0), np.maximum.reduce(x, None, initial=0)
        width = np.asarray((high - low) / x.dtype.type(255))
        scale = np.where(width == 0, np.ones_like(width), width)
        zero = saturated_numpy(np.asarray(np.rint(-low / scale)), U8)
        y = np.rint(x / scale) + zero
    return saturated_numpy(y, U8), scale, zero


def _dynamic_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """The range always holds 0; of zeros alone the scale is 1."""
    x = node.operand(0)
    zero, one, steps = (build.constant(np.array(n, np.float32)) for n in (0, 1, 255))
    every = tuple(range(len(x.shape)))
    low = build.op("Min", build.op("ReduceMin", x, axes=every, keepdims=False), zero)
    high = build.op("Max", build.op("ReduceMax", x, axes=every, keepdims=False), zero)
    width = build.op("Div", build.op("Sub", high, low), steps)
    scale = build.op("Where", build.op("Equal", width, zero), one, width)
    point = build.op("Round", build.op("Div", build.op("Neg", low), scale))
    offset = saturated(build, point, U8)
    return build.op("QuantizeLinear", x, scale, offset, to=U8), scale, offset


_LOW = Operand("zero", optional=True)
operator(
    "QuantizeLinear",
    "saturate(round(x / scale) + zero), for the tensor, along an axis or in blocks; halves to even",
    [Operand("x", (*FLOATS, "i32")), Operand("scale", (*FLOATS, "i32")), _LOW],
    [Operand("y")],
    _quantize_infer,
    _quantize_evaluate,
    {
        AXIS: Attr("int", 0),
        BLOCK: Attr("int", 0),
        TO: Attr("dtype", required=True),
        PRECISION: Attr("dtype"),
    },
    lower=_quantize_lower,
)
operator(
    "DequantizeLinear",
    "(x - zero) scale, for the tensor, along an axis or in blocks",
    [Operand("x"), Operand("scale", FLOATS), _LOW],
    [Operand("y", FLOATS)],
    _dequantize_infer,
    _dequantize_evaluate,
    {AXIS: Attr("int", 0), BLOCK: Attr("int", 0), TO: Attr("dtype", required=True)},
    lower=_dequantize_lower,
)
operator(
    "DynamicQuantizeLinear",
    "x quantised to u8 over its own range, which is made to hold 0; the scale and the zero point",
    [Operand("x", ("f32",))],
    [Operand("y", ("u8",)), Operand("scale", ("f32",)), Operand("zero", ("u8",))],
    _dynamic_infer,
    _dynamic_evaluate,
    lower=_dynamic_lower,
)
