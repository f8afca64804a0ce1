"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import I64, DType
from tilewright.errors import VerifyError
from tilewright.expr import Expr, cast, const, read
from tilewright.ops.broadcast import truncating_quotient
from tilewright.ops.declaration import NUMBERS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand, Operator
from tilewright.ops.reading import accumulated, accumulator
from tilewright.tensor.ir import (
    Axis,
    Reduce,
    Tensor,
    compute,
    identity_of,
    max_over,
    min_over,
    prod_over,
    reduce_axis,
    sum_over,
)
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
    lattice: bool = False,
) -> Operator:
    """Declare a reduction. numeric: the NumPy ufunc; mean: the total is divided by the number of elements.

    lattice: it is a maximum or minimum, which booleans have too.
    Half types accumulate in float32. Integer means are of exact totals and round towards zero. The result
    of reducing nothing is the reduction's identity; a mean is then NaN, of integers 0.
    """
    types = (*NUMBERS, "bool") if lattice else NUMBERS
    stage = name.lower()

    def infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
        x, axes = required(types, 0), attrs["axes"]
        if len(set(axes)) != len(axes) or any(not 0 <= axis < x.rank for axis in axes):
            raise VerifyError(f"{name}: axes {list(axes)} do not fit a tensor of rank {x.rank}")
        return (TensorType(x.dtype, _kept(x.shape, attrs)),)

    def evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
        x, axes = required(arrays, 0), tuple(attrs["axes"])
        count = prod(x.shape[axis] for axis in axes)
        work = _sum_type(DType.of(x.dtype)).numpy if mean else wide(x.dtype)
        more = {"initial": _identity(symbolic, DType.of(x.dtype))} if lattice and count == 0 else {}
        with np.errstate(all="ignore"):
            total = np.asarray(
                numeric.reduce(x, axis=axes, dtype=work, keepdims=bool(attrs["keepdims"]), **more)  # type: ignore[attr-defined]
            )
            if mean:
                total = _mean(total, count)
            return (total.astype(x.dtype, copy=False),)

    def body(
        tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
    ) -> tuple[Tensor, ...]:
        x = required(tensors, 0)
        axes = sorted(attrs["axes"])
        reduced = {axis: reduce_axis(x.shape[axis], f"{stage}.r{axis}") for axis in axes}

        def element(*i: Expr) -> Expr:
            term = read(x, _source(i, reduced, len(x.shape), attrs["keepdims"]))
            value = cast(term, _sum_type(x.dtype)) if mean else accumulated(term)
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
        [Operand("x", types)],
        [Operand("y", types)],
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


def _sum_type(dtype: DType) -> DType:
    """In which a mean adds up: 32-bit integers and narrower ones cannot overflow an i64."""
    return I64 if dtype.is_integer and dtype.bits < 64 else accumulator(dtype)


def _identity(symbolic: Callable[..., Expr], dtype: DType) -> Any:
    """What a maximum or minimum of nothing is."""
    reduced = symbolic(const(0, dtype), reduce_axis(0, "nothing"))
    assert isinstance(reduced, Reduce)
    return np.asarray(identity_of(reduced).value, dtype.numpy)  # type: ignore[attr-defined]


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
_reduction("ReduceMax", "maximum over axes; NaN is handed on", np.maximum, max_over, lattice=True)
_reduction("ReduceMin", "minimum over axes; NaN is handed on", np.minimum, min_over, lattice=True)
_reduction("ReduceProd", "product over axes", np.multiply, prod_over)
