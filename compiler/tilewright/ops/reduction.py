"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, cast, const, read
from tilewright.ops.broadcast import truncating_quotient
from tilewright.ops.declaration import NUMBERS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand, Operator
from tilewright.ops.reading import accumulated
from tilewright.tensor.ir import Axis, Tensor, compute, max_over, min_over, prod_over, reduce_axis, sum_over
from tilewright.types import TensorType


def _kept(shape: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    """The result's shape."""
    axes, keep = attrs["axes"], attrs["keepdims"]
    sized = [1 if axis in axes else n for axis, n in enumerate(shape)]
    return tuple(n for axis, n in enumerate(sized) if keep or axis not in axes)


def _reduction(
    name: str,
    doc: str,
    numeric: Callable[..., Any],
    symbolic: Callable[..., Expr],
    mean: bool = False,
) -> Operator:
    """Declare a reduction. numeric: the NumPy ufunc; mean: the total is divided by the number of elements.

    Half types accumulate in float32. Integer means round towards zero.
    """
    stage = name.lower()

    def infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
        x, axes = required(types, 0), attrs["axes"]
        if len(set(axes)) != len(axes) or any(not 0 <= axis < x.rank for axis in axes):
            raise VerifyError(f"{name}: axes {list(axes)} do not fit a tensor of rank {x.rank}")
        count = prod(x.shape[axis] for axis in axes)
        if count == 0 and (mean or name in ("ReduceMax", "ReduceMin")):
            raise VerifyError(f"{name}: there is nothing to reduce in shape {list(x.shape)}")
        return (TensorType(x.dtype, _kept(x.shape, attrs)),)

    def evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
        x, axes = required(arrays, 0), tuple(attrs["axes"])
        with np.errstate(all="ignore"):
            total = np.asarray(
                numeric.reduce(x, axis=axes, dtype=wide(x.dtype), keepdims=bool(attrs["keepdims"]))  # type: ignore[attr-defined]
            )
            if mean:
                total = _mean(total, prod(x.shape[axis] for axis in axes))
        return (total.astype(x.dtype, copy=False),)

    def body(
        tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
    ) -> tuple[Tensor, ...]:
        x = required(tensors, 0)
        axes = sorted(attrs["axes"])
        reduced = {axis: reduce_axis(x.shape[axis], f"{stage}.r{axis}") for axis in axes}

        def element(*i: Expr) -> Expr:
            value = accumulated(read(x, _source(i, reduced, len(x.shape), attrs["keepdims"])))
            return symbolic(value, *reduced.values()) if reduced else value

        total = compute(types[0].shape, element, stage)
        count = prod(axis.extent for axis in reduced.values())
        if not mean and total.dtype == x.dtype:
            return (total,)

        def finish(*i: Expr) -> Expr:
            value = _quotient(read(total, i), count) if mean else read(total, i)
            return cast(value, x.dtype)

        return (compute(types[0].shape, finish, f"{stage}_out"),)

    return operator(
        name,
        doc,
        [Operand("x", NUMBERS)],
        [Operand("y", NUMBERS)],
        infer,
        evaluate,
        {"axes": Attr("ints", required=True), "keepdims": Attr("bool", True)},
        Fusion.REDUCTION,
        compute=body,
    )


def _source(i: Sequence[Expr], reduced: dict[int, Axis], rank: int, keepdims: bool) -> list[Expr]:
    """Where the element of result index i, and of the reduce axes, stands in the operand."""
    own = iter(i)
    indices: list[Expr] = []
    for axis in range(rank):
        result_index = next(own) if keepdims or axis not in reduced else None
        indices.append(reduced[axis].var if axis in reduced else result_index)  # type: ignore[arg-type]
    return indices


def _mean(total: np.ndarray, count: int) -> np.ndarray:
    if total.dtype.kind not in "iu":
        return np.asarray(total / total.dtype.type(count))
    quotient = total // count
    return np.asarray(quotient + ((total < 0) & (quotient * count != total)))


def _quotient(total: Expr, count: int) -> Expr:
    divisor = const(count, total.dtype)
    return total / divisor if total.dtype.is_float else truncating_quotient(total, divisor)


_reduction("ReduceSum", "sum over axes", np.add, sum_over)
_reduction("ReduceMean", "mean over axes; integers round towards zero", np.add, sum_over, mean=True)
_reduction("ReduceMax", "maximum over axes; NaN is handed on", np.maximum, max_over)
_reduction("ReduceMin", "minimum over axes; NaN is handed on", np.minimum, min_over)
_reduction("ReduceProd", "product over axes", np.multiply, prod_over)
