"""Products of bytes: sums of integers, which all engines must agree on to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fuzz.drawing import Drawing, Tensor
from fuzz.layers import COSTLY, window

BYTES = ("uint8", "int8")


def some_bytes(d: Drawing, shape: Sequence[int]) -> Tensor:
    """An input of any bytes, or one that is quantised: whole numbers, which every engine divides alike."""
    dtype = d.among(BYTES)
    if d.chance(0.5):
        x = d.input(dtype, shape)
        d.feeds[x.name] = _any(d, dtype, shape)
        return x
    whole = d.one("Round", d.input("float32", shape), exact=True)
    scale = d.constant(np.asarray(d.among((0.25, 0.5, 1.0)), np.float32))
    return d.one("QuantizeLinear", whole, scale, _zero(d, dtype), results=[(dtype, shape)], magnitude=255.0)


def matmul_integer(d: Drawing) -> None:
    rows = (*((d.between(1, 3),) if d.chance(0.3) else ()), d.between(1, 9))
    depth, columns = d.between(1, 40), d.among((1, 2, 5, 16, 17, 33))
    x = some_bytes(d, (*rows, depth))
    w = _weights(d, (depth, columns))
    points = [_zero(d, t.dtype) if d.chance(0.6) else None for t in (x, w)]
    _as_float(d, d.one("MatMulInteger", x, w, *points, results=[("int32", (*rows, columns))]), depth)


def conv_integer(d: Drawing) -> None:
    channels = d.among((1, 2, 3, 4, 5, 8, 16, 17, 32))
    x = some_bytes(d, (d.among((1, 1, 2)), channels, d.between(1, 14), d.between(1, 14)))
    found = window(d, x)
    if found is None:
        return
    sizes = found.pop("sizes")
    group = d.among([g for g in {1, 2, channels} if channels % g == 0] + [1])
    outputs = group * d.among((1, 2, 4, 16, 17, 33) if group < 4 else (1, 1, 2))
    shape = (outputs, channels // group, *found["kernel_shape"])
    if x.shape[0] * math.prod(sizes) * math.prod(shape) > COSTLY:
        return
    w = _weights(d, shape)
    points = [_zero(d, t.dtype) if d.chance(0.6) else None for t in (x, w)]
    result = ("int32", (x.shape[0], outputs, *sizes))
    y = d.one("ConvInteger", x, w, *points, results=[result], group=group, **found)
    _as_float(d, y, math.prod(shape[1:]))


def _any(d: Drawing, dtype: str, shape: Sequence[int]) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(d.numbers.integers(limits.min, limits.max + 1, tuple(shape))).astype(dtype)


def _zero(d: Drawing, dtype: str) -> Tensor:
    return d.constant(_any(d, dtype, ()))


def _weights(d: Drawing, shape: Sequence[int]) -> Tensor:
    """Mostly constants; unsigned ones are rare in practice, and need i32 unless a zero point centres them."""
    dtype = "int8" if d.chance(0.8) else "uint8"
    if d.chance(0.9):
        return d.constant(_any(d, dtype, shape))
    w = d.input(dtype, shape)
    d.feeds[w.name] = _any(d, dtype, shape)
    return w


def _as_float(d: Drawing, y: Tensor, terms: int) -> None:
    """By a power of two, so that nothing is rounded where sums are below 2^24."""
    if d.chance(0.6):
        largest = 255 * 255 * terms
        exact = largest < 2**24
        scale = d.constant(np.asarray(2.0 ** -largest.bit_length(), np.float32))
        wide = d.one("Cast", y, results=[("float32", y.shape)], exact=exact, magnitude=float(largest), to=1)
        d.one("Mul", wide, scale, exact=exact, magnitude=1.0)


DRAWS = ((matmul_integer, 2), (conv_integer, 3))
