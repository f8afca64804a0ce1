"""Bits of integers, and questions about floating-point values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.errors import VerifyError
from tilewright.expr import Expr, binary, call, const
from tilewright.ops.broadcast import binary_operator, simple_binary
from tilewright.ops.declaration import FLOATS, INTEGERS
from tilewright.ops.elementwise import like, magnitude, unary
from tilewright.ops.operator import Attr, Attrs

_DIRECTIONS = {"LEFT": ("shl", np.left_shift), "RIGHT": ("shr", np.right_shift)}


def _direction(attrs: Attrs) -> tuple[str, Any]:
    if attrs["direction"] not in _DIRECTIONS:
        raise VerifyError(f"BitShift: direction is '{attrs['direction']}', expected LEFT or RIGHT")
    return _DIRECTIONS[attrs["direction"]]


def _shift(a: Expr, b: Expr, attrs: Attrs) -> Expr:
    return binary(_direction(attrs)[0], a, b)


def _shift_numpy(a: np.ndarray, b: np.ndarray, attrs: Attrs) -> np.ndarray:
    return np.asarray(_direction(attrs)[1](a, b))


def _is_infinite(x: Expr, attrs: Attrs) -> Expr:
    """One comparison serves both signs, one sign, or nothing at all."""
    infinity = float("inf")
    if attrs["positive"] and attrs["negative"]:
        return binary("eq", magnitude(x), like(x, infinity))
    if attrs["positive"]:
        return binary("eq", x, like(x, infinity))
    return binary("eq", x, like(x, -infinity)) if attrs["negative"] else const(False, BOOL)


def _is_infinite_numpy(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    positive = np.isposinf(x) & bool(attrs["positive"])
    return np.asarray(positive | (np.isneginf(x) & bool(attrs["negative"])))


simple_binary("BitwiseAnd", "and of the bits", np.bitwise_and, "and", types=INTEGERS)
simple_binary("BitwiseOr", "or of the bits", np.bitwise_or, "or", types=INTEGERS)
simple_binary("BitwiseXor", "exclusive or of the bits", np.bitwise_xor, "xor", types=INTEGERS)
unary(
    "BitwiseNot",
    "complement of the bits",
    lambda x, _: np.invert(x),
    lambda x, _: binary("xor", x, like(x, -1 if x.dtype.kind == "int" else 2**x.dtype.bits - 1)),
    INTEGERS,
    widen=False,
)
binary_operator(
    "BitShift",
    "a moved by b bits to the LEFT or RIGHT; a negative b, or one of its width or more, leaves only the sign",
    _shift_numpy,
    _shift,
    INTEGERS,
    attrs={"direction": Attr("str", required=True)},
)
unary(
    "IsInf",
    "whether x is infinite; the flags say of which sign",
    _is_infinite_numpy,
    _is_infinite,
    FLOATS,
    {"positive": Attr("bool", True), "negative": Attr("bool", True)},
    result=BOOL,
)
unary(
    "IsNaN",
    "whether x is no number",
    lambda x, _: np.isnan(x),
    lambda x, _: call("isnan", x, dtype=BOOL),
    FLOATS,
    result=BOOL,
)
