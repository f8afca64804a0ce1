"""What scalar operations and intrinsics mean, in NumPy: the reference of expressions and of loop programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import RunError
from tilewright.faults import NOTHING, REASONS

Array = Any  # np.ndarray or NumPy scalar


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, element by element, in the array's own type."""
    array = np.asarray(x)
    values = np.fromiter(map(math.erf, array.astype(np.float64).reshape(-1)), np.float64, array.size)
    return values.reshape(array.shape).astype(array.dtype)


def report(reason: int) -> int:
    """A reason of `faults` as it is. Raises RunError where there is one."""
    if reason != NOTHING:
        raise RunError(REASONS[reason])
    return reason


SMALLEST_NORMAL = 2.0**-126  # of float32 and of bf16: what is smaller is denormal


def flush(a: Array) -> Array:
    """Zero, of the same sign, for a denormal number of float32."""
    return np.where(np.abs(a) < SMALLEST_NORMAL, np.copysign(np.zeros_like(a), a), a)


INTRINSICS: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    "abs": np.abs,
    "pow": np.power,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "isnan": np.isnan,
    "flush": flush,
    "fmod": np.fmod,
    "fma": lambda a, b, c: a * b + c,
    "report": report,
    "within": lambda position, extent: np.clip(position, 0, extent - 1),
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
