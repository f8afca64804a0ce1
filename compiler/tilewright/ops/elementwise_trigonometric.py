"""Trigonometric and hyperbolic functions and their inverses, from sin, cos, atan, exp, log and sqrt."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, log
from typing import Any

import numpy as np

from tilewright.expr import Expr, call, select
from tilewright.ops.elementwise import like, log1p, magnitude, unary


def _function(name: str, doc: str, numeric: Callable[[Any], Any], symbolic: Callable[[Expr], Expr]) -> None:
    unary(name, doc, lambda x, _: numeric(x), lambda x, _: symbolic(x))


def _with_sign(value: Expr, sign: Expr) -> Expr:
    """An odd function from its values at |x|; zero keeps its sign, NaN stays."""
    return select(sign < 0, value * -1, select(sign > 0, value, sign))


def _tan(x: Expr) -> Expr:
    return call("sin", x) / call("cos", x)


def _asin(x: Expr) -> Expr:
    """The factors keep the bits that 1 - x² would lose near 1; beyond 1 the root is NaN."""
    one = like(x, 1)
    return call("atan", x / call("sqrt", (one - x) * (one + x)))


def _acos(x: Expr) -> Expr:
    one = like(x, 1)
    return call("atan", call("sqrt", (one - x) / (one + x))) * 2


def _half_exp(x: Expr) -> Expr:
    """exp(x) / 2 that overflows only where the result does."""
    root = call("exp", x * 0.5)
    return root * 0.5 * root


def _sinh(x: Expr) -> Expr:
    """Below 1 its series, because the difference of the exponentials would cancel."""
    size, square = magnitude(x), x * x
    terms = 10 if x.dtype.bits == 64 else 6
    series = like(x, 1 / factorial(2 * terms - 1))
    for order in range(2 * terms - 3, 0, -2):
        series = series * square + 1 / factorial(order)
    half = _half_exp(size)
    return select(size < 1, series * x, _with_sign(half - like(x, 0.25) / half, x))


def _cosh(x: Expr) -> Expr:
    half = _half_exp(magnitude(x))
    return half + like(x, 0.25) / half


def _asinh(x: Expr) -> Expr:
    """Beyond `far` the square would overflow, and 2|x| is all that counts."""
    size, one = magnitude(x), like(x, 1)
    far = 1e9 if x.dtype.bits == 64 else 1e5
    square = size * size
    near = log1p(size + square / (call("sqrt", square + 1) + one))
    return _with_sign(select(size > far, call("log", size) + log(2), near), x)


def _acosh(x: Expr) -> Expr:
    """NaN below 1."""
    far = 1e9 if x.dtype.bits == 64 else 1e5
    above = x - 1
    near = log1p(above + call("sqrt", above * (above + 2)))
    return select(x > far, call("log", x) + log(2), near)


def _atanh(x: Expr) -> Expr:
    """Infinite at ±1, NaN beyond."""
    size = magnitude(x)
    ratio = size * 2 / (like(x, 1) - size)
    value = select(size < 1, log1p(ratio) * 0.5, call("log", like(x, 1) - size) * -1)
    return _with_sign(value, x)


_function("Tan", "tangent of x in radians", np.tan, _tan)
_function("Asin", "arc sine in radians; NaN beyond ±1", np.arcsin, _asin)
_function("Acos", "arc cosine in radians; NaN beyond ±1", np.arccos, _acos)
_function("Atan", "arc tangent in radians", np.arctan, lambda x: call("atan", x))
_function("Sinh", "hyperbolic sine", np.sinh, _sinh)
_function("Cosh", "hyperbolic cosine", np.cosh, _cosh)
_function("Asinh", "inverse hyperbolic sine", np.arcsinh, _asinh)
_function("Acosh", "inverse hyperbolic cosine; NaN below 1", np.arccosh, _acosh)
_function("Atanh", "inverse hyperbolic tangent; NaN beyond ±1", np.arctanh, _atanh)
