"""Where the largest or smallest element of a row is: ArgMax, ArgMin, Hardmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, NUMBERS, attributes, operator, required
from tilewright.ops.operator import Attr, Attrs, Builder, Operand, Operator
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]


def _check_axis(name: str, x: TensorType, axis: int) -> None:
    if not 0 <= axis < x.rank:
        raise VerifyError(f"{name}: axis {axis} does not fit a tensor of rank {x.rank}")
    if not x.shape[axis]:
        raise VerifyError(f"{name}: axis {axis} is empty")


def _is_extremum(build: Builder, x: Value, extremum: Value) -> Value:
    """Whether an element is the row's extremum; NaN wins over all numbers."""
    equal = build.op("Equal", x, extremum)
    if not x.dtype.is_float:
        return equal
    both = build.op("And", build.op("IsNaN", x), build.op("IsNaN", extremum))
    return build.op("Or", equal, both)


def _index_of(name: str, doc: str, over: str, numeric: str) -> Operator:
    """Declare the operator: the row's extremum first, then the first or last place where it stands."""

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

    def lower(build: Builder, node: Node) -> tuple[Value, ...]:
        """Min(where(x = max(x), 0 1 2 ..., n - 1)); Max and 0 for the last place."""
        x, attrs = node.operand(0), attributes(node)
        axis, last = attrs["axis"], attrs["last"]
        places = np.arange(x.shape[axis], dtype=np.int32)
        column = build.constant(places.reshape([-1, *(1 for _ in x.shape[axis + 1 :])]))
        found = _is_extremum(build, x, build.op(over, x, axes=(axis,), keepdims=True))
        other = build.constant(places[0] if last else places[-1])
        chosen = build.op("Where", found, column, other)
        reduced = "ReduceMax" if last else "ReduceMin"
        index = build.op(reduced, chosen, axes=(axis,), keepdims=attrs["keepdims"])
        return (build.op("Cast", index, to=I64),)

    return operator(
        name,
        doc,
        [Operand("x", NUMBERS)],
        [Operand("y", ("i64",))],
        infer,
        evaluate,
        {"axis": Attr("int", required=True), "keepdims": Attr("bool", True), "last": Attr("bool", False)},
        lower=lower,
    )


_index_of("ArgMax", "index of the first (or last) largest element along an axis", "ReduceMax", "argmax")
_index_of("ArgMin", "index of the first (or last) smallest element along an axis", "ReduceMin", "argmin")


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
