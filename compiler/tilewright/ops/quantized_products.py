"""Products of quantised tensors: exact sums in i32, brought to the scale of the result once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import F32, I32, DType
from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.convolution import convolve
from tilewright.ops.declaration import attributes, operator, required
from tilewright.ops.operator import REGISTRY, Attr, Attrs, Builder, Operand
from tilewright.ops.quantization import as_type, saturated, saturated_numpy
from tilewright.ops.windows import windows
from tilewright.types import TensorType

ALGORITHM = "int8"  # of a product of i32: by bytes, see passes/narrow_products.py
_BYTES = ("i8", "u8")
_SCALES = ("f32", "f16", "bf16")
_WINDOW = ("strides", "dilations", "pads", "group")


def _rows(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape in which a scale or zero point of rows broadcasts: one element for each row of a stack."""
    return () if list(shape) in ([], [1]) else (*shape, 1) if len(shape) == 1 else tuple(shape)


def _columns(shape: Sequence[int]) -> tuple[int, ...]:
    return () if list(shape) in ([], [1]) else tuple(shape)


def _channels(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """For each channel (axis 0 of the weights, axis 1 of the result), followed by `rank` axes."""
    return () if list(shape) in ([], [1]) else (*shape, *(1 for _ in range(rank)))


def _shaped(build: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else build.op("Reshape", value, shape=shape)


def _centred(build: Builder, value: Value, zero: Value | None, shape: tuple[int, ...]) -> Value:
    """value - zero in i32; `shape`: the zero point's shape for broadcasting."""
    whole = as_type(build, value, I32)
    if zero is None:
        return whole
    return build.op("Sub", whole, as_type(build, _shaped(build, zero, shape), I32))


def _centred_numpy(value: np.ndarray, zero: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    whole = value.astype(np.int32)
    return whole if zero is None else whole - zero.reshape(shape).astype(np.int32)


def _requantized(build: Builder, total: Value, factors: Sequence[Value], zero: Value) -> Value:
    """saturate(round(total a b / c) + zero); factors: the scales a, b and c, shaped for broadcasting."""
    a, b, c = (as_type(build, factor, F32) for factor in factors)
    ratio = build.op("Div", build.op("Mul", a, b), c)
    y = build.op("Round", build.op("Mul", as_type(build, total, F32), ratio))
    return saturated(build, build.op("Add", y, as_type(build, zero, F32)), zero.dtype)


def _requantized_numpy(total: np.ndarray, factors: Sequence[np.ndarray], zero: np.ndarray) -> np.ndarray:
    work = np.dtype(np.float64 if factors[0].dtype == np.float64 else np.float32)
    a, b, c = (np.asarray(factor, work) for factor in factors)
    with np.errstate(all="ignore"):
        y = np.rint(total.astype(work) * (a * b / c)) + zero.astype(work)
        return saturated_numpy(np.asarray(y), DType.of(zero.dtype))


def _check_points(name: str, types: Sequence[TensorType | None], pairs: Sequence[tuple[int, int]]) -> None:
    """Zero points have the element type of what they belong to. pairs: (value, zero point)."""
    for value, point in pairs:
        zero = types[point]
        dtype = required(types, value).dtype
        if zero is not None and zero.dtype != dtype:
            raise VerifyError(f"{name}: a zero point has element type {zero.dtype}, its tensor {dtype}")


def _product_type(a: TensorType, b: TensorType) -> tuple[int, ...]:
    (result,) = REGISTRY["MatMul"].infer([TensorType(I32, a.shape), TensorType(I32, b.shape)], {})
    return result.shape


def _integer_infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
    _check_points("MatMulInteger", types, [(0, 2), (1, 3)])
    return (TensorType(I32, _product_type(required(types, 0), required(types, 1))),)


def _integer_evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
    a, b, a_zero, b_zero = required(arrays, 0), required(arrays, 1), arrays[2], arrays[3]
    left = _centred_numpy(a, a_zero, () if a_zero is None else _rows(a_zero.shape))
    right = _centred_numpy(b, b_zero, () if b_zero is None else _columns(b_zero.shape))
    return (np.asarray(np.matmul(left, right)),)


def _integer_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    a, b = node.operand(0), node.operand(1)
    a_zero, b_zero = [*node.inputs, None, None][2:4]
    left = _centred(build, a, a_zero, () if a_zero is None else _rows(a_zero.shape))
    right = _centred(build, b, b_zero, () if b_zero is None else _columns(b_zero.shape))
    return (build.op("MatMul", left, right),)


def _linear_infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
    _check_points("QLinearMatMul", types, [(0, 2), (3, 5)])
    return (TensorType(required(types, 7).dtype, _product_type(required(types, 0), required(types, 3))),)


def _linear_evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (required(arrays, i) for i in range(8))
    left = _centred_numpy(a, a_zero, _rows(a_zero.shape))
    right = _centred_numpy(b, b_zero, _columns(b_zero.shape))
    factors = [
        a_scale.reshape(_rows(a_scale.shape)),
        b_scale.reshape(_columns(b_scale.shape)),
        y_scale.reshape(_rows(y_scale.shape)),
    ]
    total = np.asarray(np.matmul(left, right))
    return (_requantized_numpy(total, factors, y_zero.reshape(_rows(y_zero.shape))),)


def _linear_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (node.operand(i) for i in range(8))
    total = build.op("MatMulInteger", a, b, a_zero, b_zero)
    factors = [
        _shaped(build, a_scale, _rows(a_scale.shape)),
        _shaped(build, b_scale, _columns(b_scale.shape)),
        _shaped(build, y_scale, _rows(y_scale.shape)),
    ]
    return (_requantized(build, total, factors, _shaped(build, y_zero, _rows(y_zero.shape))),)


def _window(attrs: Attrs) -> Attrs:
    return {key: attrs[key] for key in _WINDOW if attrs[key] is not None}


def _convolution_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    _check_points("QLinearConv", types, [(0, 2), (3, 5)])
    x, w, bias = required(types, 0), required(types, 3), types[8]
    operands = [TensorType(I32, x.shape), TensorType(I32, w.shape), bias]
    try:
        (result,) = REGISTRY["Conv"].infer(operands, _window(attrs))
    except VerifyError as error:
        raise VerifyError(str(error).replace("Conv:", "QLinearConv:", 1)) from error
    return (TensorType(required(types, 7).dtype, result.shape),)


def _convolution_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (required(arrays, i) for i in range(8))
    left = _centred_numpy(x, x_zero, ())
    right = _centred_numpy(w, w_zero, _channels(w_zero.shape, w.ndim - 1))
    over = windows("QLinearConv", x.shape, w.shape[2:], attrs)
    total = convolve(left, right, over, attrs["group"])
    bias = arrays[8]
    if bias is not None:
        total = total + bias.reshape(-1, *(1 for _ in over))
    factors = [
        x_scale.reshape(()),
        w_scale.reshape(_channels(w_scale.shape, w.ndim - 2)),
        y_scale.reshape(()),
    ]
    return (_requantized_numpy(total, factors, y_zero.reshape(())),)


def _convolution_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """Padding is 0 after the zero point is taken off, which is the zero point itself."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (node.operand(i) for i in range(8))
    bias = node.inputs[8] if len(node.inputs) > 8 else None
    rank = len(w.shape)
    left = _centred(build, x, x_zero, ())
    right = _centred(build, w, w_zero, _channels(w_zero.shape, rank - 1))
    total = build.op("Conv", left, right, bias, **_window(attributes(node)))
    factors = [
        _shaped(build, x_scale, ()),
        _shaped(build, w_scale, _channels(w_scale.shape, rank - 2)),
        _shaped(build, y_scale, ()),
    ]
    return (_requantized(build, total, factors, _shaped(build, y_zero, ())),)


operator(
    "MatMulInteger",
    "(a - a_zero) (b - b_zero) in i32; zero points of a are for each row, of b for each column",
    [
        Operand("a", _BYTES),
        Operand("b", _BYTES),
        Operand("a_zero", _BYTES, optional=True),
        Operand("b_zero", _BYTES, optional=True),
    ],
    [Operand("y", ("i32",))],
    _integer_infer,
    _integer_evaluate,
    lower=_integer_lower,
)
_PAIRS = [("a", _BYTES), ("b", _BYTES)]
operator(
    "QLinearMatMul",
    "saturate(round((a - a_zero) (b - b_zero) a_scale b_scale / y_scale) + y_zero)",
    [
        *(
            Operand(name, types)
            for side, values in _PAIRS
            for name, types in ((side, values), (f"{side}_scale", _SCALES), (f"{side}_zero", values))
        ),
        Operand("y_scale", _SCALES),
        Operand("y_zero", _BYTES),
    ],
    [Operand("y", _BYTES)],
    _linear_infer,
    _linear_evaluate,
    lower=_linear_lower,
)
operator(
    "QLinearConv",
    "as Conv on quantised x and w, with a bias in i32; padding is x's zero point",
    [
        *(
            Operand(name, types)
            for side in ("x", "w")
            for name, types in ((side, _BYTES), (f"{side}_scale", ("f32",)), (f"{side}_zero", _BYTES))
        ),
        Operand("y_scale", ("f32",)),
        Operand("y_zero", _BYTES),
        Operand("b", ("i32",), optional=True),
    ],
    [Operand("y", _BYTES)],
    _convolution_infer,
    _convolution_evaluate,
    {
        "strides": Attr("ints"),
        "dilations": Attr("ints"),
        "pads": Attr("ints"),
        "group": Attr("int", 1),
    },
    lower=_convolution_lower,
)
