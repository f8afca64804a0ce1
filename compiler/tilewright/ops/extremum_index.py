"""Where the largest or smallest element of a row is: ArgMax, ArgMin, Hardmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.dtypes import BOOL, I64
from tilewright.errors import VerifyError
from tilewright.expr import Expr, binary, call, const, logical_and, read, select
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, NUMBERS, attributes, operator, required
from tilewright.ops.operator import Attr, Attrs, Builder, Fusion, Operand, Operator
from tilewright.tensor.ir import Axis, Tensor, compute, max_over, min_over, reduce_axis
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Tensors = Sequence[Tensor | None]
Results = Sequence[TensorType]


def _check_axis(name: str, x: TensorType, axis: int) -> None:
    if not 0 <= axis < x.rank:
        raise VerifyError(f"{name}: axis {axis} does not fit a tensor of rank {x.rank}")
    if not x.shape[axis]:
        raise VerifyError(f"{name}: axis {axis} is empty")


def _is_extremum(x: Expr, extremum: Expr) -> Expr:
    """Whether an element is the row's extremum; NaN wins over all numbers."""
    equal = binary("eq", x, extremum)
    if not x.dtype.is_float:
        return equal
    unordered = logical_and(call("isnan", x, dtype=BOOL), call("isnan", extremum, dtype=BOOL))
    return binary("or", equal, unordered)


def _index_of(name: str, doc: str, over: Callable[[Expr, Axis], Expr], numeric: str) -> Operator:
    """Declare the operator: the row's extremum first, then the first or last place where it stands."""
    stage = name.lower()

    def infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        x, axis = required(types, 0), attrs["axis"]
        _check_axis(name, x, axis)
        kept = (1,) if attrs["keepdims"] else ()
        return (TensorType(I64, (*x.shape[:axis], *kept, *x.shape[axis + 1 :])),)

    def evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
        x, axis = required(arrays, 0), attrs["axis"]
        rows = np.flip(x, axis) if attrs["last"] else x
        found = getattr(rows, numeric)(axis=axis, keepdims=attrs["keepdims"])
        return (np.asarray(x.shape[axis] - 1 - found if attrs["last"] else found, np.int64),)

    def body(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
        x, axis, keepdims = required(tensors, 0), attrs["axis"], attrs["keepdims"]
        extent = x.shape[axis]
        rows = (*x.shape[:axis], *x.shape[axis + 1 :])
        r, s = reduce_axis(extent, f"{stage}_value.r"), reduce_axis(extent, f"{stage}.r")
        extremum = compute(rows, lambda *i: over(read(x, [*i[:axis], r.var, *i[axis:]]), r), f"{stage}_value")

        def place(*i: Expr) -> Expr:
            row = [*i[:axis], *i[axis + 1 :]] if keepdims else list(i)
            here = _is_extremum(read(x, [*row[:axis], s.var, *row[axis:]]), read(extremum, row))
            if attrs["last"]:
                return max_over(select(here, s.var, const(0)), s)
            return min_over(select(here, s.var, const(extent - 1)), s)

        return (compute(types[0].shape, place, stage),)

    return operator(
        name,
        doc,
        [Operand("x", NUMBERS)],
        [Operand("y", ("i64",))],
        infer,
        evaluate,
        {"axis": Attr("int", required=True), "keepdims": Attr("bool", True), "last": Attr("bool", False)},
        Fusion.OPAQUE,
        compute=body,
    )


_index_of("ArgMax", "index of the first (or last) largest element along an axis", max_over, "argmax")
_index_of("ArgMin", "index of the first (or last) smallest element along an axis", min_over, "argmin")


def _hard_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    _check_axis("Hardmax", x, attrs["axis"])
    return (TensorType(x.dtype, x.shape),)


def _hard_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, axis = required(arrays, 0), attrs["axis"]
    view = [1] * x.ndim
    view[axis] = x.shape[axis]
    hot = x.argmax(axis=axis, keepdims=True) == np.arange(x.shape[axis]).reshape(view)
    return (hot.astype(x.dtype),)


def _hard_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """Equal(ArgMax(x), 0 1 2 ...) as a number."""
    x, axis = node.operand(0), attributes(node)["axis"]
    places = np.arange(x.shape[axis]).reshape([-1, *(1 for _ in x.shape[axis + 1 :])])
    first = build.op("ArgMax", x, axis=axis, keepdims=True)
    return (build.op("Cast", build.op("Equal", first, build.constant(places)), to=x.dtype),)


operator(
    "Hardmax",
    "1 at the first largest element along an axis, else 0",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    _hard_infer,
    _hard_evaluate,
    {"axis": Attr("int", required=True)},
    lower=_hard_lower,
)
