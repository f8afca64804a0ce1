"""Element-wise operators of one operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np

from tilewright.arithmetic import erf
from tilewright.dtypes import BOOL, DType
from tilewright.expr import Expr, binary, call, cast, const, maximum, minimum, select
from tilewright.ops.declaration import FLOATS, NUMBERS, SIGNED, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand, Operator
from tilewright.ops.reading import accumulator
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

Numeric = Callable[[Any, Attrs], Any]
Symbolic = Callable[[Expr, Attrs], Expr]


def unary(
    name: str,
    doc: str,
    numeric: Numeric,
    symbolic: Symbolic,
    types: Sequence[str] = FLOATS,
    attrs: Mapping[str, Attr] | None = None,
    widen: bool = True,
    result: DType | None = None,
) -> Operator:
    """Declare y[i] = f(x[i]). result: element type of y, that of x when None.

    widen: half types are computed in float32 and rounded once.
    """

    def infer(operands: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
        x = required(operands, 0)
        return (TensorType(result or x.dtype, x.shape),)

    def evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
        x = required(arrays, 0)
        work = x.astype(wide(x.dtype), copy=False) if widen else x
        with np.errstate(all="ignore"):
            y = np.asarray(numeric(work, attrs))
            return (y.astype(result.numpy if result else x.dtype, copy=False),)

    def body(tensors: Sequence[Tensor | None], attrs: Attrs, _: Sequence[TensorType]) -> tuple[Tensor, ...]:
        x = required(tensors, 0)
        work = accumulator(x.dtype) if widen else x.dtype
        to = result or x.dtype
        return (compute(x.shape, lambda *i: cast(symbolic(cast(x[i], work), attrs), to), name.lower()),)

    return operator(
        name,
        doc,
        [Operand("x", tuple(types))],
        [Operand("y", (result.name,) if result else tuple(types))],
        infer,
        evaluate,
        attrs,
        Fusion.ELEMENTWISE,
        compute=body,
    )


def _intrinsic(name: str, doc: str, numeric: Callable[[Any], Any]) -> Operator:
    """Declare an operator that is one math intrinsic of its own name in lower case."""
    return unary(name, doc, lambda x, _: numeric(x), lambda x, _: call(name.lower(), x))


def like(x: Expr, value: float) -> Expr:
    return const(value, x.dtype)


def magnitude(x: Expr) -> Expr:
    return call("abs", x)


def _sign(x: Expr, _: Attrs) -> Expr:
    if x.dtype.kind == "uint":
        return select(x > 0, like(x, 1), like(x, 0))
    return select(x > 0, like(x, 1), select(x < 0, like(x, -1), x))


def _sigmoid(x: Expr, _: Attrs) -> Expr:
    """One exponential: where it overflows to infinity the quotient is 0, as it should be."""
    return like(x, 1) / (call("exp", x * -1) + 1)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) in x's type, without overflow."""
    decay = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, np.ones_like(decay), decay) / (decay + 1))


def _softplus(x: Expr, _: Attrs) -> Expr:
    """max(x, 0) + log(1 + e) with e = exp(-|x|)."""
    return maximum(x, like(x, 0)) + log1p(call("exp", magnitude(x) * -1))


def log1p(e: Expr) -> Expr:
    """log(1 + e) for 0 <= e < inf; the quotient restores the bits that 1 + e loses."""
    u = e + 1
    return select(binary("eq", u, like(e, 1)), e, call("log", u) * e / (u - 1))


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return maximum(minimum(x * alpha + beta, like(x, 1)), like(x, 0))


def _hard_sigmoid_numpy(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.asarray(np.maximum(np.minimum(x * alpha + beta, 1), 0))


_TANH_SCALE, _TANH_CUBE = sqrt(2 / pi), 0.044715


def _gelu(x: Expr, attrs: Attrs) -> Expr:
    if attrs["approximate"] == "tanh":
        return x * 0.5 * (call("tanh", (x + x * x * x * _TANH_CUBE) * _TANH_SCALE) + 1)
    return x * 0.5 * (call("erf", x * sqrt(0.5)) + 1)


def _gelu_numpy(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    if attrs["approximate"] == "tanh":
        return np.asarray(x * 0.5 * (np.tanh((x + x * x * x * _TANH_CUBE) * _TANH_SCALE) + 1))
    return np.asarray(x * 0.5 * (erf(x * sqrt(0.5)) + 1))


_ALPHA = "alpha"

unary("Identity", "y = x", lambda x, _: x, lambda x, _: x, (), widen=False)
unary(
    "Relu",
    "max(x, 0)",
    lambda x, _: np.maximum(x, x.dtype.type(0)),
    lambda x, _: maximum(x, like(x, 0)),
    SIGNED,
    widen=False,
)
unary(
    "LeakyRelu",
    "x where x >= 0, else alpha x",
    lambda x, a: np.where(x < 0, x * x.dtype.type(a[_ALPHA]), x),
    lambda x, a: select(x < 0, x * a[_ALPHA], x),
    attrs={_ALPHA: Attr("float", 0.01)},
)
unary(
    "Elu",
    "x where x > 0, else alpha (exp(x) - 1)",
    lambda x, a: np.where(x < 0, np.expm1(x) * x.dtype.type(a[_ALPHA]), x),
    lambda x, a: select(x < 0, call("expm1", x) * a[_ALPHA], x),
    attrs={_ALPHA: Attr("float", 1.0)},
)
unary("Sigmoid", "1 / (1 + exp(-x)), without overflow", lambda x, _: sigmoid(x), _sigmoid)
unary(
    "Softplus",
    "log(1 + exp(x)), without overflow",
    lambda x, _: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    _softplus,
)
unary(
    "HardSigmoid",
    "alpha x + beta, limited to [0, 1]",
    lambda x, a: _hard_sigmoid_numpy(x, a[_ALPHA], a["beta"]),
    lambda x, a: _hard_sigmoid(x, a[_ALPHA], a["beta"]),
    attrs={_ALPHA: Attr("float", 0.2), "beta": Attr("float", 0.5)},
)
unary(
    "HardSwish",
    "x times (x / 6 + 1/2 limited to [0, 1])",
    lambda x, _: x * _hard_sigmoid_numpy(x, 1 / 6, 0.5),
    lambda x, _: x * _hard_sigmoid(x, 1 / 6, 0.5),
)
unary(
    "Gelu",
    "x times the normal distribution function of x; approximate: none (erf) or tanh",
    _gelu_numpy,
    _gelu,
    attrs={"approximate": Attr("str", "none")},
)
_intrinsic("Tanh", "hyperbolic tangent", np.tanh)
_intrinsic("Exp", "e to the power x", np.exp)
_intrinsic("Log", "natural logarithm", np.log)
_intrinsic("Sqrt", "square root", np.sqrt)
_intrinsic("Erf", "error function", erf)
_intrinsic("Floor", "largest integer that is not above x", np.floor)
_intrinsic("Ceil", "smallest integer that is not below x", np.ceil)
_intrinsic("Round", "nearest integer, halves to even", np.rint)
_intrinsic("Sin", "sine of x in radians", np.sin)
_intrinsic("Cos", "cosine of x in radians", np.cos)
unary("Reciprocal", "1 / x", lambda x, _: 1 / x, lambda x, _: like(x, 1) / x)
unary(
    "Abs",
    "magnitude",
    lambda x, _: np.abs(x),
    lambda x, _: x if x.dtype.kind == "uint" else magnitude(x),
    NUMBERS,
    widen=False,
)
unary("Neg", "-x", lambda x, _: -x, lambda x, _: x * -1, SIGNED, widen=False)
unary("Sign", "-1, 0 or 1; NaN stays", lambda x, _: np.sign(x), _sign, NUMBERS, widen=False)
unary(
    "Not",
    "logical negation",
    lambda x, _: np.logical_not(x),
    lambda x, _: binary("eq", x, const(False, BOOL)),
    ("bool",),
    widen=False,
)
