"""Negative log likelihood: what a classifier's log probabilities cost, given the right classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import RunError, VerifyError
from tilewright.expr import (
    Expr,
    binary,
    call,
    cast,
    const,
    mul,
    read,
    select,
)
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.reading import accumulated, accumulator
from tilewright.tensor.ir import Axis, Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

_REDUCTIONS = ("none", "sum", "mean")


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    name = "NegativeLogLikelihoodLoss"
    x, target, weight = required(types, 0), required(types, 1), types[2]
    if x.rank < 2 or not x.shape[1]:
        raise VerifyError(f"{name}: input has shape {list(x.shape)}, expected batch, classes, ...")
    shape = (x.shape[0], *x.shape[2:])
    if target.shape != shape:
        raise VerifyError(f"{name}: target has shape {list(target.shape)}, expected {list(shape)}")
    if weight is not None and (weight.shape != (x.shape[1],) or weight.dtype != x.dtype):
        raise VerifyError(f"{name}: weight is {weight}, expected {x.dtype}[{x.shape[1]}]")
    if attrs["reduction"] not in _REDUCTIONS:
        raise VerifyError(
            f"{name}: reduction '{attrs['reduction']}' is unknown, expected {', '.join(_REDUCTIONS)}"
        )
    return (TensorType(x.dtype, shape if attrs["reduction"] == "none" else ()),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, target, weight = required(arrays, 0), required(arrays, 1), arrays[2]
    work = x.astype(wide(x.dtype), copy=False)
    classes = x.shape[1]
    ignored = np.zeros(target.shape, bool)
    if attrs["ignore_index"] is not None:
        ignored = target == attrs["ignore_index"]
    outside = ~ignored & ((target < 0) | (target >= classes))
    if outside.any():
        raise RunError(f"target {target[outside].flat[0]} is no class, there are {classes}")
    chosen = np.where(ignored, 0, target)
    loss = -np.take_along_axis(work, np.expand_dims(chosen, 1), axis=1).squeeze(1)
    weights = np.ones(target.shape, work.dtype) if weight is None else weight.astype(work.dtype)[chosen]
    weights = np.where(ignored, work.dtype.type(0), weights)
    loss = np.where(ignored, work.dtype.type(0), loss * weights)
    with np.errstate(all="ignore"):
        if attrs["reduction"] == "sum":
            loss = loss.sum()
        if attrs["reduction"] == "mean":
            loss = loss.sum() / weights.sum()
    return (np.asarray(loss).astype(x.dtype, copy=False),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    x, target, weight = required(tensors, 0), required(tensors, 1), tensors[2]
    work, ignore = accumulator(x.dtype), attrs["ignore_index"]
    zero = const(0, work)

    def is_ignored(i: Sequence[Expr]) -> Expr:
        return binary("eq", cast(read(target, i), I64), const(ignore))

    def ignored(i: Sequence[Expr], value: Expr) -> Expr:
        return value if ignore is None else select(is_ignored(i), zero, value)

    def class_of(i: Sequence[Expr]) -> Expr:
        """The run reports a target that is no class; an ignored one stands for class 0."""
        index = cast(read(target, i), I64)
        chosen = index if ignore is None else select(is_ignored(i), const(0), index)
        return call("within", chosen, const(x.shape[1]))

    def weight_at(*i: Expr) -> Expr:
        value = const(1, work) if weight is None else accumulated(read(weight, [class_of(i)]))
        return ignored(i, value)

    def loss_at(*i: Expr) -> Expr:
        value = accumulated(read(x, [i[0], class_of(i), *i[1:]])) * -1
        if weight is not None:
            value = mul(value, accumulated(read(weight, [class_of(i)])))
        return ignored(i, value)

    loss = compute(target.shape, loss_at, "nll")
    if attrs["reduction"] == "none":
        return (compute(target.shape, lambda *i: cast(read(loss, i), x.dtype), "nll_out"),)
    total = _total(loss, "nll_sum")
    if attrs["reduction"] == "sum":
        return (compute((), lambda: cast(read(total, []), x.dtype), "nll_out"),)
    weights = _total(compute(target.shape, weight_at, "nll_weight"), "nll_weights")
    return (compute((), lambda: cast(read(total, []) / read(weights, []), x.dtype), "nll_out"),)


def _total(x: Tensor, name: str) -> Tensor:
    axes: list[Axis] = [reduce_axis(n, f"{name}.r{i}") for i, n in enumerate(x.shape)]
    return compute((), lambda: sum_over(read(x, [axis.var for axis in axes]), *axes), name)


operator(
    "NegativeLogLikelihoodLoss",
    "-x at the target class of each sample times the class's weight; none, sum, or the weighted mean of them",
    [Operand("x", FLOATS), Operand("target", ("i32", "i64")), Operand("weight", FLOATS, optional=True)],
    [Operand("loss", FLOATS)],
    _infer,
    _evaluate,
    {"reduction": Attr("str", "mean"), "ignore_index": Attr("int")},
    Fusion.OPAQUE,
    compute=_compute,
)
