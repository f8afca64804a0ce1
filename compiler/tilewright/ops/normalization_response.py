"""Local response normalisation: every channel over the energy of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, cast, const, logical_and, mul, read, select, sub
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.reading import accumulated, accumulator
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    if x.rank < 2:
        raise VerifyError(f"LRN: input has rank {x.rank}, expected at least 2")
    if attrs["size"] < 1:
        raise VerifyError(f"LRN: size is {attrs['size']}, expected at least 1")
    return (TensorType(x.dtype, x.shape),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, size = required(arrays, 0), attrs["size"]
    work = x.astype(wide(x.dtype), copy=False)
    number = work.dtype.type
    before, channels = (size - 1) // 2, x.shape[1]
    total = np.zeros_like(work)
    for c in range(channels):
        window = work[:, max(0, c - before) : min(channels, c - before + size)]
        total[:, c] = np.square(window).sum(axis=1)
    with np.errstate(all="ignore"):
        base = number(attrs["bias"]) + number(attrs["alpha"] / size) * total
        y = work / np.power(base, number(attrs["beta"]))
    return (y.astype(x.dtype, copy=False),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    x, size = required(tensors, 0), attrs["size"]
    work = accumulator(x.dtype)
    before, channels = (size - 1) // 2, x.shape[1]
    k = reduce_axis(size, "lrn.k")

    def energy(*i: Expr) -> Expr:
        channel = sub(add(i[1], k.var), const(before))
        inside = logical_and(binary("ge", channel, const(0)), binary("lt", channel, const(channels)))
        value = accumulated(read(x, [i[0], channel, *i[2:]]))
        return sum_over(select(inside, mul(value, value), const(0, work)), k)

    total = compute(x.shape, energy, "lrn")

    def element(*i: Expr) -> Expr:
        base = read(total, i) * (attrs["alpha"] / size) + attrs["bias"]
        return cast(accumulated(read(x, i)) / binary("pow", base, const(attrs["beta"], work)), x.dtype)

    return (compute(types[0].shape, element, "lrn_out"),)


operator(
    "LRN",
    "x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    _infer,
    _evaluate,
    {
        "size": Attr("int", required=True),
        "alpha": Attr("float", 1e-4),
        "beta": Attr("float", 0.75),
        "bias": Attr("float", 1.0),
    },
    Fusion.REDUCTION,
    compute=_compute,
)
