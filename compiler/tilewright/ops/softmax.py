"""Softmax and LogSoftmax, as chains of stages over rows that stay whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, call, cast, read, sub
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand, Operator
from tilewright.ops.reading import accumulated
from tilewright.tensor.ir import Tensor, compute, max_over, reduce_axis, sum_over
from tilewright.types import TensorType


def _rows(name: str, doc: str, log: bool) -> Operator:
    """Declare the operator. The row's maximum is taken off first, so that nothing overflows."""
    stage = name.lower()

    def infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
        x, axis = required(types, 0), attrs["axis"]
        if not 0 <= axis < x.rank:
            raise VerifyError(f"{name}: axis {axis} does not fit a tensor of rank {x.rank}")
        if x.size and not x.shape[axis]:
            raise VerifyError(f"{name}: axis {axis} is empty")
        return (TensorType(x.dtype, x.shape),)

    def evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
        x, axis = required(arrays, 0), attrs["axis"]
        if not x.size:
            return (x,)
        work = x.astype(wide(x.dtype), copy=False)
        with np.errstate(all="ignore"):
            shifted = work - work.max(axis=axis, keepdims=True)
            powers = np.exp(shifted)
            total = powers.sum(axis=axis, keepdims=True)
            result = shifted - np.log(total) if log else powers / total
        return (result.astype(x.dtype, copy=False),)

    def body(
        tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
    ) -> tuple[Tensor, ...]:
        x, axis = required(tensors, 0), attrs["axis"]
        rows = (*x.shape[:axis], *x.shape[axis + 1 :])

        def along(i: Sequence[Expr], index: Expr) -> list[Expr]:
            return [*i[:axis], index, *i[axis:]]

        def row(i: Sequence[Expr]) -> list[Expr]:
            return [*i[:axis], *i[axis + 1 :]]

        r = reduce_axis(x.shape[axis], f"{stage}_max.r")
        highest = compute(rows, lambda *i: max_over(accumulated(read(x, along(i, r.var))), r), f"{stage}_max")

        def shifted(i: Sequence[Expr]) -> Expr:
            return sub(accumulated(read(x, i)), read(highest, row(i)))

        powers = compute(x.shape, lambda *i: call("exp", shifted(i)), f"{stage}_exp")
        s = reduce_axis(x.shape[axis], f"{stage}_sum.r")
        total = compute(rows, lambda *i: sum_over(read(powers, along(i, s.var)), s), f"{stage}_sum")

        def element(*i: Expr) -> Expr:
            sum_of_row = read(total, row(i))
            value = sub(shifted(i), call("log", sum_of_row)) if log else read(powers, i) / sum_of_row
            return cast(value, x.dtype)

        return (compute(types[0].shape, element, stage),)

    return operator(
        name,
        doc,
        [Operand("x", FLOATS)],
        [Operand("y", FLOATS)],
        infer,
        evaluate,
        {"axis": Attr("int", required=True)},
        Fusion.OPAQUE,
        compute=body,
    )


_rows("Softmax", "exp(x) over its sum along an axis", log=False)
_rows("LogSoftmax", "logarithm of Softmax", log=True)
