"""Activations beyond those of `elementwise`."""

from __future__ import annotations

import numpy as np

from tilewright.expr import Expr, call, maximum, minimum, select
from tilewright.ops.elementwise import like, magnitude, sigmoid, unary
from tilewright.ops.operator import Attr, Attrs

_ALPHA, _GAMMA, _BIAS, _LAMBDA = "alpha", "gamma", "bias", "lambd"


def _celu(x: Expr, attrs: Attrs) -> Expr:
    alpha = like(x, attrs[_ALPHA])
    low: Expr = call("expm1", x / alpha) * alpha
    return maximum(x, like(x, 0)) + minimum(low, like(x, 0))


def _celu_numpy(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    alpha = x.dtype.type(attrs[_ALPHA])
    return np.asarray(np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0))


def _selu(x: Expr, attrs: Attrs) -> Expr:
    low: Expr = call("expm1", x) * attrs[_ALPHA]
    return select(x > 0, x, low) * like(x, attrs[_GAMMA])


def _selu_numpy(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    alpha, gamma = x.dtype.type(attrs[_ALPHA]), x.dtype.type(attrs[_GAMMA])
    return np.asarray(np.where(x > 0, x, alpha * np.expm1(x)) * gamma)


def _mish(x: Expr, _: Attrs) -> Expr:
    """tanh(log(1 + exp(x))) is (e² + 2e) / (e² + 2e + 2) with e = exp(x); above 0 both are divided by e²."""
    t = call("exp", magnitude(x) * -1)
    low, high = t * (t + 2), t * 2 + 1
    return select(x < 0, x * (low / (low + 2)), x * (high / (high + t * t * 2)))


def _mish_numpy(x: np.ndarray, _: Attrs) -> np.ndarray:
    return np.asarray(x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))))


def _swish(x: Expr, attrs: Attrs) -> Expr:
    return x / (call("exp", x * -attrs[_ALPHA]) + 1)


def _swish_numpy(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    return np.asarray(x * sigmoid(x * x.dtype.type(attrs[_ALPHA])))


def _shrink(x: Expr, attrs: Attrs) -> Expr:
    zero = like(x, 0)
    bias, bound = attrs[_BIAS], attrs[_LAMBDA]
    return select(x < -bound, x + bias, select(x > bound, x - bias, zero))


def _shrink_numpy(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    bias, bound = attrs[_BIAS], attrs[_LAMBDA]
    return np.asarray(np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0)))


unary(
    "Celu",
    "max(x, 0) + min(alpha (exp(x / alpha) - 1), 0)",
    _celu_numpy,
    _celu,
    attrs={_ALPHA: Attr("float", 1.0)},
)
unary(
    "Selu",
    "gamma x where x > 0, else gamma alpha (exp(x) - 1)",
    _selu_numpy,
    _selu,
    attrs={
        _ALPHA: Attr("float", 1.6732632),
        _GAMMA: Attr("float", 1.050701),
    },
)
unary(
    "ThresholdedRelu",
    "x where x > alpha, else 0",
    lambda x, a: np.where(x > x.dtype.type(a[_ALPHA]), x, x.dtype.type(0)),
    lambda x, a: select(x > a[_ALPHA], x, like(x, 0)),
    attrs={_ALPHA: Attr("float", 1.0)},
)
unary("Mish", "x tanh(log(1 + exp(x)))", _mish_numpy, _mish)
unary("Swish", "x / (1 + exp(-alpha x))", _swish_numpy, _swish, attrs={_ALPHA: Attr("float", 1.0)})
unary("Softsign", "x / (1 + |x|)", lambda x, _: x / (1 + np.abs(x)), lambda x, _: x / (magnitude(x) + 1))
unary(
    "Shrink",
    "x + bias below -lambd, x - bias above lambd, else 0",
    _shrink_numpy,
    _shrink,
    attrs={_BIAS: Attr("float", 0.0), _LAMBDA: Attr("float", 0.5)},
)
