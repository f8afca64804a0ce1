"""Element-wise operators of several operands, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, F64, DType
from tilewright.errors import VerifyError
from tilewright.expr import (
    Expr,
    binary,
    call,
    cast,
    const,
    floordiv,
    logical_and,
    maximum,
    minimum,
    mod,
    select,
)
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import (
    NUMBERS,
    broadcast_shape,
    operator,
    required,
    same_dtype,
    wide,
)
from tilewright.ops.operator import Attr, Attrs, Builder, Fusion, Operand, Operator
from tilewright.ops.reading import accumulator, broadcast_read
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

Numeric = Callable[[Any, Any, Attrs], Any]
Symbolic = Callable[[Expr, Expr, Attrs], Expr]


def binary_operator(
    name: str,
    doc: str,
    numeric: Numeric,
    symbolic: Symbolic,
    types: Sequence[str] = NUMBERS,
    result: DType | None = None,
    attrs: Mapping[str, Attr] | None = None,
) -> Operator:
    """Declare y = f(a, b). result: element type of y, that of the operands when None.

    Half types are computed in float32 and rounded once.
    """

    def infer(operands: Sequence[TensorType | None], given: Attrs) -> tuple[TensorType, ...]:
        a, b = required(operands, 0), required(operands, 1)
        same_dtype(name, operands)
        return (TensorType(result or a.dtype, broadcast_shape(name, a.shape, b.shape)),)

    def evaluate(arrays: Sequence[np.ndarray | None], given: Attrs) -> tuple[np.ndarray, ...]:
        a, b = required(arrays, 0), required(arrays, 1)
        work = wide(a.dtype)
        with np.errstate(all="ignore"):
            y = np.asarray(numeric(a.astype(work, copy=False), b.astype(work, copy=False), given))
            return (y.astype(result.numpy if result else a.dtype, copy=False),)

    def body(tensors: Sequence[Tensor | None], given: Attrs, out: Sequence[TensorType]) -> tuple[Tensor, ...]:
        a, b = required(tensors, 0), required(tensors, 1)
        work = accumulator(a.dtype)

        def element(*i: Expr) -> Expr:
            left, right = cast(broadcast_read(a, i), work), cast(broadcast_read(b, i), work)
            return cast(symbolic(left, right, given), out[0].dtype)

        return (compute(out[0].shape, element, name.lower()),)

    operands = [Operand("a", tuple(types)), Operand("b", tuple(types))]
    outputs = [Operand("y", (result.name,) if result else tuple(types))]
    return operator(name, doc, operands, outputs, infer, evaluate, attrs, Fusion.BROADCAST, compute=body)


def simple_binary(name: str, doc: str, numeric: Callable[[Any, Any], Any], op: str, **more: Any) -> Operator:
    """Declare an operator that is one binary expression."""
    return binary_operator(name, doc, lambda a, b, _: numeric(a, b), lambda a, b, _: binary(op, a, b), **more)


def _opposite(a: Expr, b: Expr) -> Expr:
    return binary("ne", a < 0, b < 0)


def truncating_quotient(a: Expr, b: Expr) -> Expr:
    """Integer division that rounds towards zero, as ONNX and C do."""
    quotient = floordiv(a, b)
    if a.dtype.kind == "uint":
        return quotient
    inexact = binary("ne", quotient * b, a)
    return select(logical_and(inexact, _opposite(a, b)), quotient + 1, quotient)


def _divide(a: Expr, b: Expr, _: Attrs) -> Expr:
    return a / b if a.dtype.is_float else truncating_quotient(a, b)


def _divide_numpy(a: np.ndarray, b: np.ndarray, _: Attrs) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    quotient = a // b
    return np.asarray(quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(quotient.dtype))


def _power(a: Expr, b: Expr, _: Attrs) -> Expr:
    if a.dtype.is_float:
        return binary("pow", a, b)
    return cast(binary("pow", cast(a, F64), cast(b, F64)), a.dtype)


def _power_numpy(a: np.ndarray, b: np.ndarray, _: Attrs) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return np.asarray(np.power(a, b))
    return np.asarray(np.power(a.astype(np.float64), b.astype(np.float64)))


def _floored_remainder(a: Expr, b: Expr) -> Expr:
    """The remainder with the sign of b; a zero gets it too."""
    remainder, zero = call("fmod", a, b), const(0, a.dtype)
    signed_zero = call("abs", remainder) * select(b < 0, const(-1, a.dtype), const(1, a.dtype))
    moved = select(_opposite(remainder, b), remainder + b, remainder)
    return select(binary("eq", remainder, zero), signed_zero, moved)


def _modulo(a: Expr, b: Expr, attrs: Attrs) -> Expr:
    if a.dtype.is_float:
        return call("fmod", a, b) if attrs["fmod"] else _floored_remainder(a, b)
    remainder = mod(a, b)
    if not attrs["fmod"] or a.dtype.kind == "uint":
        return remainder
    nonzero = binary("ne", remainder, const(0, a.dtype))
    return select(logical_and(nonzero, _opposite(a, b)), remainder - b, remainder)


_LOGICAL: Any = {"types": ("bool",)}
_COMPARED: Any = {"types": NUMBERS, "result": BOOL}

simple_binary("Add", "a + b", np.add, "add")
simple_binary("Sub", "a - b", np.subtract, "sub")
simple_binary("Mul", "a times b", np.multiply, "mul")
binary_operator("Div", "a / b; integers round towards zero", _divide_numpy, _divide)
binary_operator("Pow", "a to the power b; integers go through float64", _power_numpy, _power)
binary_operator(
    "Max", "the larger; NaN is handed on", lambda a, b, _: np.maximum(a, b), lambda a, b, _: maximum(a, b)
)
binary_operator(
    "Min", "the smaller; NaN is handed on", lambda a, b, _: np.minimum(a, b), lambda a, b, _: minimum(a, b)
)
binary_operator(
    "Mod",
    "remainder with the sign of b, or of a when fmod = 1",
    lambda a, b, attrs: np.fmod(a, b) if attrs["fmod"] else np.mod(a, b),
    _modulo,
    attrs={"fmod": Attr("int", 0)},
)
simple_binary("And", "logical and", np.logical_and, "and", **_LOGICAL)
simple_binary("Or", "logical or", np.logical_or, "or", **_LOGICAL)
simple_binary("Xor", "exclusive or", np.logical_xor, "xor", **_LOGICAL)
simple_binary("Equal", "a = b", np.equal, "eq", types=(*NUMBERS, "bool"), result=BOOL)
simple_binary("Less", "a < b", np.less, "lt", **_COMPARED)
simple_binary("LessOrEqual", "a <= b", np.less_equal, "le", **_COMPARED)
simple_binary("Greater", "a > b", np.greater, "gt", **_COMPARED)
simple_binary("GreaterOrEqual", "a >= b", np.greater_equal, "ge", **_COMPARED)


def _where_infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
    same_dtype("Where", types[1:])
    condition, a, b = (required(types, i) for i in range(3))
    return (TensorType(a.dtype, broadcast_shape("Where", condition.shape, a.shape, b.shape)),)


def _where_evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
    condition, a, b = (required(arrays, i) for i in range(3))
    return (np.where(condition, a, b),)


def _where_compute(
    tensors: Sequence[Tensor | None], _: Attrs, out: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    condition, a, b = (required(tensors, i) for i in range(3))

    def element(*i: Expr) -> Expr:
        return select(broadcast_read(condition, i), broadcast_read(a, i), broadcast_read(b, i))

    return (compute(out[0].shape, element, "where"),)


operator(
    "Where",
    "a where the condition holds, else b",
    [Operand("condition", ("bool",)), Operand("a"), Operand("b")],
    [Operand("y")],
    _where_infer,
    _where_evaluate,
    fusion=Fusion.BROADCAST,
    compute=_where_compute,
)


def _clip_infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
    same_dtype("Clip", types)
    x = required(types, 0)
    for bound in types[1:]:
        if bound is not None and bound.size != 1:
            raise VerifyError(f"Clip: a bound is one number, found shape {list(bound.shape)}")
    return (TensorType(x.dtype, x.shape),)


def _clip_evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
    x, low, high = required(arrays, 0), arrays[1], arrays[2]
    if low is not None:
        x = np.maximum(x, low.reshape(()))
    if high is not None:
        x = np.minimum(x, high.reshape(()))
    return (x,)


def _clip_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """min(high, max(x, low)): the upper bound wins when the bounds cross."""
    x = node.operand(0)
    bounds = [*node.inputs[1:], None, None][:2]
    for name, bound in zip(("Max", "Min"), bounds, strict=True):
        if bound is None:
            continue
        scalar = bound if bound.shape == () else build.op("Reshape", bound, shape=())
        x = build.op(name, x, scalar)
    return (x if x is not node.operand(0) else build.op("Identity", x),)


operator(
    "Clip",
    "x limited to [min, max]; the upper bound wins when they cross",
    [
        Operand("x", NUMBERS),
        Operand("min", NUMBERS, optional=True),
        Operand("max", NUMBERS, optional=True),
    ],
    [Operand("y", NUMBERS)],
    _clip_infer,
    _clip_evaluate,
    lower=_clip_lower,
)
