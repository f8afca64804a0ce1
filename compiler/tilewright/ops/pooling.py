"""Pools over sliding windows, and over whole planes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import inf

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, cast, const, logical_and, mul, read, select
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Fusion, Operand, Operator
from tilewright.ops.reading import accumulated
from tilewright.ops.windows import Window, pad_for, tap_view, windows
from tilewright.tensor.ir import Axis, Tensor, compute, max_over, reduce_axis, sum_over
from tilewright.types import TensorType

_ATTRS = {
    "kernel_shape": Attr("ints", required=True),
    "strides": Attr("ints"),
    "dilations": Attr("ints"),
    "pads": Attr("ints"),
    "ceil_mode": Attr("int", 0),
}
_MAX_TYPES = (*FLOATS, "i8", "u8")


def _lowest(dtype: np.dtype) -> float:
    return -inf if dtype.kind not in "iu" else int(np.iinfo(dtype).min)


def _over(name: str, shape: Sequence[int], attrs: Attrs) -> tuple[Window, ...]:
    over = windows(name, shape, attrs["kernel_shape"], attrs)
    for axis, window in enumerate(over):
        if max(window.before, window.after) >= window.reach:
            raise VerifyError(f"{name}: axis {axis + 2} has padding as wide as the kernel ({window.reach})")
    return over


def _pool_infer(name: str, types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    if x.rank < 3:
        raise VerifyError(f"{name}: input has rank {x.rank}, expected 3 to 5")
    over = _over(name, x.shape, attrs)
    return (TensorType(x.dtype, (*x.shape[:2], *(w.outputs for w in over))),)


def _taps(padded: np.ndarray, over: Sequence[Window]) -> list[np.ndarray]:
    return [tap_view(padded, over, tap) for tap in np.ndindex(*(w.kernel for w in over))]


def _max_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    over = _over("MaxPool", x.shape, attrs)
    views = _taps(pad_for(x, over, _lowest(x.dtype)), over)
    result = views[0].copy()
    for view in views[1:]:
        np.maximum(result, view, out=result)
    return (result,)


def _average_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    over = _over("AveragePool", x.shape, attrs)
    views = _taps(pad_for(x.astype(wide(x.dtype), copy=False), over, 0), over)
    total = views[0].copy()
    for view in views[1:]:
        total += view
    counts = [w.counts(bool(attrs["count_include_pad"])) for w in over]
    grid = reduce(np.multiply.outer, counts)
    return ((total / grid.astype(total.dtype)).astype(x.dtype, copy=False),)


def _tap_axes(name: str, over: Sequence[Window]) -> list[Axis]:
    return [reduce_axis(w.kernel, f"{name}.k{i}") for i, w in enumerate(over)]


def _guarded(
    x: Tensor, over: Sequence[Window], taps: Sequence[Axis], i: Sequence[Expr], outside: float
) -> Expr:
    """What window i reads with the taps; `outside` in the padding."""
    positions = [w.position(p, t.var) for w, p, t in zip(over, i[2:], taps, strict=True)]
    guards = [g for w, p in zip(over, positions, strict=True) for g in w.guards(p)]
    return select(logical_and(*guards), read(x, [*i[:2], *positions]), const(outside, x.dtype))


def _max_compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    x = required(tensors, 0)
    over = _over("MaxPool", x.shape, attrs)
    taps = _tap_axes("maxpool", over)
    outside = _lowest(x.dtype.numpy)
    return (
        compute(types[0].shape, lambda *i: max_over(_guarded(x, over, taps, i, outside), *taps), "maxpool"),
    )


def _average_compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    x = required(tensors, 0)
    over = _over("AveragePool", x.shape, attrs)
    taps = _tap_axes("averagepool", over)
    include = bool(attrs["count_include_pad"])
    total = compute(
        types[0].shape,
        lambda *i: sum_over(accumulated(_guarded(x, over, taps, i, 0)), *taps),
        "averagepool_sum",
    )

    def mean(*i: Expr) -> Expr:
        count = reduce(mul, (w.count(p, include) for w, p in zip(over, i[2:], strict=True)))
        return cast(read(total, i) / _number(count, total), x.dtype)

    return (compute(types[0].shape, mean, "averagepool"),)


def _number(count: Expr, total: Tensor) -> Expr:
    value = getattr(count, "value", None)
    return cast(count, total.dtype) if value is None else const(value, total.dtype)


operator(
    "MaxPool",
    "largest element of each window; padding never wins",
    [Operand("x", _MAX_TYPES)],
    [Operand("y", _MAX_TYPES)],
    lambda types, attrs: _pool_infer("MaxPool", types, attrs),
    _max_evaluate,
    _ATTRS,
    Fusion.REDUCTION,
    compute=_max_compute,
)
operator(
    "AveragePool",
    "mean of each window; count_include_pad counts the padding, never what ceil_mode adds beyond it",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    lambda types, attrs: _pool_infer("AveragePool", types, attrs),
    _average_evaluate,
    {**_ATTRS, "count_include_pad": Attr("int", 0)},
    Fusion.REDUCTION,
    compute=_average_compute,
)


def _global(name: str, doc: str, reduction: str) -> Operator:
    def infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
        x = required(types, 0)
        if x.rank < 3:
            raise VerifyError(f"{name}: input has rank {x.rank}, expected at least 3")
        return (TensorType(x.dtype, (*x.shape[:2], *(1 for _ in x.shape[2:]))),)

    def evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
        x = required(arrays, 0)
        axes = tuple(range(2, x.ndim))
        if reduction == "ReduceMax":
            return (x.max(axis=axes, keepdims=True),)
        return (x.mean(axis=axes, keepdims=True, dtype=wide(x.dtype)).astype(x.dtype, copy=False),)

    def lower(build: Builder, node: Node) -> tuple[Value, ...]:
        x = node.operand(0)
        return (build.op(reduction, x, axes=tuple(range(2, x.type.rank)), keepdims=True),)

    return operator(name, doc, [Operand("x", FLOATS)], [Operand("y", FLOATS)], infer, evaluate, lower=lower)


_global("GlobalAveragePool", "mean over all spatial axes", "ReduceMean")
_global("GlobalMaxPool", "maximum over all spatial axes", "ReduceMax")
