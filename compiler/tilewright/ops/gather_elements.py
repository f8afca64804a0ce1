"""Gathers by several indices at once: GatherElements, GatherND."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import RunError, VerifyError
from tilewright.expr import Expr, add, call, cast, const, read, select
from tilewright.ops.declaration import operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Tensors = Sequence[Tensor | None]
Results = Sequence[TensorType]


def wrapped(index: Expr, extent: int) -> Expr:
    """An index of any integer type as i64; a negative one counts from the end."""
    position = cast(index, I64)
    return select(position < 0, add(position, const(extent)), position)


def limited(index: Expr, extent: int) -> Expr:
    """A wrapped index that never leaves its axis; one that would is reported where the target can."""
    return call("within", wrapped(index, extent), const(extent))


def checked(name: str, indices: np.ndarray, extent: int) -> np.ndarray:
    """Indices counted from the start. Raises RunError naming the first that is outside its axis."""
    outside = indices[(indices < -extent) | (indices >= extent)]
    if outside.size:
        raise RunError(f"{name}: index {outside.reshape(-1)[0]} is outside an axis of {extent} elements")
    return np.asarray(np.where(indices < 0, indices + extent, indices), np.int64)


def _elements_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, axis = required(types, 0), required(types, 1), attrs["axis"]
    if not 0 <= axis < x.rank or indices.rank != x.rank:
        raise VerifyError(
            f"GatherElements: axis {axis} with operands of shapes {list(x.shape)} and {list(indices.shape)}"
        )
    pairs = enumerate(zip(indices.shape, x.shape, strict=True))
    if any(n > m for position, (n, m) in pairs if position != axis):
        raise VerifyError(
            f"GatherElements: indices {list(indices.shape)} reach beyond {list(x.shape)} beside axis {axis}"
        )
    if indices.size and not x.shape[axis]:
        raise VerifyError(f"GatherElements: axis {axis} is empty")
    return (TensorType(x.dtype, indices.shape),)


def _elements_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, indices, axis = required(arrays, 0), required(arrays, 1), attrs["axis"]
    grid: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = checked("GatherElements", indices, x.shape[axis])
    return (x[tuple(grid)],)


def _elements_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, indices, axis = required(tensors, 0), required(tensors, 1), attrs["axis"]

    def element(*i: Expr) -> Expr:
        return read(x, [*i[:axis], limited(read(indices, i), x.shape[axis]), *i[axis + 1 :]])

    return (compute(types[0].shape, element, "gather_elements"),)


operator(
    "GatherElements",
    "y[i, j, ...] is x[i, index[i, j, ...], ...]: one index an element, along an axis",
    [Operand("x"), Operand("indices", ("i32", "i64"))],
    [Operand("y")],
    _elements_infer,
    _elements_evaluate,
    {"axis": Attr("int", 0)},
    Fusion.INJECTIVE,
    compute=_elements_compute,
)


def check_tuples(name: str, x: TensorType, indices: TensorType, batch: int) -> None:
    """Index tuples along the last axis of `indices` fit x behind `batch` shared axes. Raises VerifyError."""
    if not 0 <= batch < min(x.rank, indices.rank) and not (batch == 0 and indices.rank):
        raise VerifyError(
            f"{name}: {batch} shared axes do not fit ranks {x.rank} and {indices.rank} of x and indices"
        )
    if x.shape[:batch] != indices.shape[:batch]:
        raise VerifyError(
            f"{name}: x {list(x.shape)} and indices {list(indices.shape)} differ in their first {batch} axes"
        )
    length = indices.shape[-1]
    if length > x.rank - batch:
        raise VerifyError(f"{name}: index tuples of {length} numbers, x has {x.rank - batch} axes for them")
    if prod(indices.shape[:-1]) and not all(x.shape[batch : batch + length]):
        raise VerifyError(f"{name}: an indexed axis of {list(x.shape)} is empty")


def _tuples_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, batch = required(types, 0), required(types, 1), attrs["batch_dims"]
    check_tuples("GatherND", x, indices, batch)
    return (TensorType(x.dtype, (*indices.shape[:-1], *x.shape[batch + indices.shape[-1] :])),)


def _tuples_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, indices, batch = required(arrays, 0), required(arrays, 1), attrs["batch_dims"]
    shared: list[np.ndarray] = list(np.indices(indices.shape[:-1], sparse=True))[:batch]
    columns = [checked("GatherND", indices[..., k], x.shape[batch + k]) for k in range(indices.shape[-1])]
    where = (*shared, *columns)
    return (x[where] if where else np.broadcast_to(x, (*indices.shape[:-1], *x.shape)),)


def _tuples_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, indices, batch = required(tensors, 0), required(tensors, 1), attrs["batch_dims"]
    rank, length = len(indices.shape) - 1, indices.shape[-1]

    def element(*i: Expr) -> Expr:
        columns = [limited(read(indices, [*i[:rank], const(k)]), x.shape[batch + k]) for k in range(length)]
        return read(x, [*i[:batch], *columns, *i[rank:]])

    return (compute(types[0].shape, element, "gather_nd"),)


operator(
    "GatherND",
    "slices of x at the index tuples along the last axis of indices, behind batch_dims shared axes",
    [Operand("x"), Operand("indices", ("i32", "i64"))],
    [Operand("y")],
    _tuples_infer,
    _tuples_evaluate,
    {"batch_dims": Attr("int", 0)},
    Fusion.INJECTIVE,
    compute=_tuples_compute,
)
