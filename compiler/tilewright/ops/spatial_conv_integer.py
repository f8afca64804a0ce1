"""Convolution of 8-bit integers with zero points, summed exactly in i32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import I32
from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.convolution import convolve
from tilewright.ops.declaration import attributes, operator, required
from tilewright.ops.operator import REGISTRY, Attr, Attrs, Builder, Operand
from tilewright.ops.windows import windows
from tilewright.types import TensorType

_BYTES = ("i8", "u8")
_CONV = ("strides", "dilations", "pads", "group")


def _point_shape(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """How a zero point broadcasts: one number, or one for each output channel (axis 0 of the weights)."""
    return () if tuple(shape) in ((), (1,)) else (*shape, *(1 for _ in range(rank - 1)))


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, w, x_zero, w_zero = required(types, 0), required(types, 1), types[2], types[3]
    if x_zero is not None and (x_zero.size != 1 or x_zero.dtype != x.dtype):
        raise VerifyError(f"ConvInteger: the zero point of x is {x_zero}, expected one {x.dtype}")
    if w_zero is not None and w_zero.dtype != w.dtype:
        raise VerifyError(f"ConvInteger: the zero point of w is {w_zero}, expected {w.dtype}")
    if w_zero is not None and w_zero.size != 1 and w_zero.shape != w.shape[:1]:
        raise VerifyError(f"ConvInteger: the zero point of w is {w_zero}, expected 1 or {w.shape[0]} numbers")
    plain = [TensorType(I32, x.shape), TensorType(I32, w.shape), None]
    return REGISTRY["Conv"].infer(plain, {key: attrs[key] for key in _CONV})


def _centred(x: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    wide = x.astype(np.int32)
    return wide if zero is None else wide - zero.reshape(_point_shape(zero.shape, x.ndim)).astype(np.int32)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, w = required(arrays, 0), required(arrays, 1)
    over = windows("ConvInteger", x.shape, w.shape[2:], attrs)
    return (convolve(_centred(x, arrays[2]), _centred(w, arrays[3]), over, attrs["group"]),)


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """A convolution of the differences: padding is the zero point, so it becomes 0."""
    x, w, x_zero, w_zero = [*node.inputs, None, None][:4]

    def difference(value: Value | None, zero: Value | None) -> Value:
        assert value is not None
        wide = build.op("Cast", value, to=I32)
        if zero is None:
            return wide
        shaped = build.op("Reshape", zero, shape=_point_shape(zero.shape, value.type.rank))
        return build.op("Sub", wide, build.op("Cast", shaped, to=I32))

    attrs = attributes(node)
    conv = {key: attrs[key] for key in _CONV}
    return (build.op("Conv", difference(x, x_zero), difference(w, w_zero), None, **conv),)


operator(
    "ConvInteger",
    "convolution of (x - x_zero) with (w - w_zero), exact in i32; a zero point of w may be one a channel",
    [
        Operand("x", _BYTES),
        Operand("w", _BYTES),
        Operand("x_zero", _BYTES, optional=True),
        Operand("w_zero", _BYTES, optional=True),
    ],
    [Operand("y", ("i32",))],
    _infer,
    _evaluate,
    {"strides": Attr("ints"), "dilations": Attr("ints"), "pads": Attr("ints"), "group": Attr("int", 1)},
    lower=_lower,
)
