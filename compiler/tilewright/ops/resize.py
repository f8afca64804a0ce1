"""Resampling along one axis by a table: what every interpolating Resize consists of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import RunError, VerifyError
from tilewright.expr import Expr, cast, const, maximum, minimum, mul, read
from tilewright.ops.declaration import operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

_TYPES = ("f32", "f64")


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, weights = (required(types, i) for i in range(3))
    axis = attrs["axis"]
    if not 0 <= axis < x.rank:
        raise VerifyError(f"Interpolate: axis {axis} does not fit a tensor of rank {x.rank}")
    if indices.rank != 2 or indices.shape != weights.shape:
        raise VerifyError(
            f"Interpolate: indices {list(indices.shape)} and weights {list(weights.shape)} must be one table"
        )
    if weights.dtype != x.dtype:
        raise VerifyError(f"Interpolate: weights are {weights.dtype}, x is {x.dtype}")
    if indices.size and not x.shape[axis]:
        raise VerifyError(f"Interpolate: axis {axis} is empty, there is nothing to interpolate")
    return (TensorType(x.dtype, (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :])),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, indices, weights = (required(arrays, i) for i in range(3))
    axis = attrs["axis"]
    wrong = indices[(indices < 0) | (indices >= x.shape[axis])]
    if wrong.size:
        raise RunError(
            f"Interpolate: index {wrong[0]} is outside axis {axis}, which has {x.shape[axis]} elements"
        )
    parts = np.take(x, indices, axis=axis)
    table = weights.reshape(*weights.shape, *(1 for _ in x.shape[axis + 1 :]))
    return ((parts * table).sum(axis=axis + 1, dtype=x.dtype),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    x, indices, weights = (required(tensors, i) for i in range(3))
    axis = attrs["axis"]
    tap = reduce_axis(indices.shape[1], "interpolate.tap")

    def element(*i: Expr) -> Expr:
        place = cast(read(indices, [i[axis], tap.var]), I64)
        # An index outside the axis must never become a read outside the tensor.
        safe = maximum(minimum(place, const(x.shape[axis] - 1)), const(0))
        value = read(x, [*i[:axis], safe, *i[axis + 1 :]])
        return sum_over(mul(value, read(weights, [i[axis], tap.var])), tap)

    return (compute(types[0].shape, element, "interpolate"),)


operator(
    "Interpolate",
    "along an axis, element o is the sum over t of weights[o, t] times element indices[o, t]",
    [Operand("x", _TYPES), Operand("indices", ("i32", "i64")), Operand("weights", _TYPES)],
    [Operand("y", _TYPES)],
    _infer,
    _evaluate,
    {"axis": Attr("int", required=True)},
    Fusion.REDUCTION,
    compute=_compute,
)
