"""Scatters: a copy of x with updates written, or combined, at indices that the data give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.errors import VerifyError
from tilewright.expr import (
    Expr,
    add,
    binary,
    call,
    cast,
    const,
    logical_and,
    maximum,
    minimum,
    mul,
    read,
)
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, seq
from tilewright.ops.declaration import operator, required, same_dtype
from tilewright.ops.gather_elements import check_tuples, checked, wrapped
from tilewright.ops.looping import (
    PARALLEL_ELEMENTS,
    cell,
    copied,
    flat,
    get,
    loop,
    loop_program,
    nest,
    put,
    store,
    with_cells,
)
from tilewright.ops.operator import Attr, Attrs, Operand
from tilewright.ops.reading import accumulator
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Results = Sequence[TensorType]

_COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {"add": add, "mul": mul, "max": maximum, "min": minimum}
_LOGICAL = {"add": "or", "max": "or", "mul": "and", "min": "and"}  # what they are on booleans
_NUMPY: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _combined(y: Buffer, place: Expr, update: Expr, reduction: str) -> Stmt:
    """`y[place] = update`, or their combination; half types are combined in float32."""
    if reduction == "none":
        return store(y, place, update)
    work = accumulator(y.dtype)
    old, new = cast(read(y, [place]), work), cast(update, work)
    if y.dtype == BOOL:
        return store(y, place, binary(_LOGICAL[reduction], old, new))
    return store(y, place, cast(_COMBINE[reduction](old, new), y.dtype))


def _scattered(x: np.ndarray, where: tuple[Any, ...], updates: np.ndarray, reduction: str) -> np.ndarray:
    result = np.array(x)
    with np.errstate(all="ignore"):
        if reduction == "none":
            result[where] = updates
        else:
            _NUMPY[reduction].at(result, where, updates)
    return result


def _check_reduction(name: str, attrs: Attrs) -> None:
    if attrs["reduction"] not in ("none", *_COMBINE):
        raise VerifyError(
            f"{name}: reduction '{attrs['reduction']}' is unknown, expected none, {', '.join(_COMBINE)}"
        )


def _inside(position: Expr, extent: int) -> Expr:
    return logical_and(binary("ge", position, const(0)), binary("lt", position, const(extent)))


def _reported(at: Buffer, extent: int) -> Stmt:
    """Tell of an index outside its axis; the update is passed over."""
    return put(at, call("within", get(at), const(extent)))


def _elements_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, updates = (required(types, i) for i in range(3))
    axis = attrs["axis"]
    _check_reduction("ScatterElements", attrs)
    same_dtype("ScatterElements", [x, updates])
    if not 0 <= axis < x.rank or indices.rank != x.rank or indices.shape != updates.shape:
        raise VerifyError(
            f"ScatterElements: axis {axis} with x {list(x.shape)}, indices {list(indices.shape)} and "
            f"updates {list(updates.shape)}"
        )
    pairs = enumerate(zip(indices.shape, x.shape, strict=True))
    if any(n > m for position, (n, m) in pairs if position != axis) or (indices.size and not x.shape[axis]):
        raise VerifyError(
            f"ScatterElements: indices {list(indices.shape)} reach beyond {list(x.shape)} on axis {axis}"
        )
    return (TensorType(x.dtype, x.shape),)


def _elements_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, indices, updates = (required(arrays, i) for i in range(3))
    axis = attrs["axis"]
    grid = list(np.broadcast_arrays(*np.indices(indices.shape, sparse=True)))
    grid[axis] = checked("ScatterElements", indices, x.shape[axis])
    return (_scattered(x, tuple(grid), updates, attrs["reduction"]),)


def _elements_loops(types: Types, attrs: Attrs, outputs: Results) -> Kernel:
    """An index outside the axis is a fault. Threads share an axis along which no two updates meet."""
    shape, indexed = required(types, 0).shape, required(types, 1)
    axis, reduction = attrs["axis"], attrs["reduction"]

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x, indices, updates = (required(inputs, i) for i in range(3))
        at = cell("at")

        def one(i: Sequence[Expr]) -> Stmt:
            here = flat(indexed.shape, i)
            place = flat(shape, [*i[:axis], get(at), *i[axis + 1 :]])
            write = _combined(results[0], place, read(updates, [here]), reduction)
            found = put(at, wrapped(read(indices, [here]), shape[axis]))
            inside = _inside(get(at), shape[axis])
            return with_cells([at], seq(found, If(inside, write, _reported(at, shape[axis]))))

        apart = [a for a, n in enumerate(indexed.shape) if a != axis and n > 1]
        if not apart or indexed.size < PARALLEL_ELEMENTS:
            return seq(copied(results[0], x), nest("i", indexed.shape, one))
        order = [apart[0], *(a for a in range(indexed.rank) if a != apart[0])]  # a fork-join once, outermost
        extents = [indexed.shape[a] for a in order]
        turned = nest("i", extents, lambda i: one([i[order.index(a)] for a in range(len(i))]), parallel=0)
        return seq(copied(results[0], x), turned)

    return loop_program("scatter_elements", types, outputs, body)


operator(
    "ScatterElements",
    "x with updates[i, j, ...] written at the index along an axis, or combined: add, mul, max, min",
    [Operand("x"), Operand("indices", ("i32", "i64")), Operand("updates")],
    [Operand("y")],
    _elements_infer,
    _elements_evaluate,
    {"axis": Attr("int", 0), "reduction": Attr("str", "none")},
    loops=_elements_loops,
)


def _tuples_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, updates = (required(types, i) for i in range(3))
    _check_reduction("ScatterND", attrs)
    same_dtype("ScatterND", [x, updates])
    check_tuples("ScatterND", x, indices, 0)
    wanted = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    if updates.shape != wanted:
        raise VerifyError(f"ScatterND: updates have shape {list(updates.shape)}, expected {list(wanted)}")
    return (TensorType(x.dtype, x.shape),)


def _tuples_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, indices, updates = (required(arrays, i) for i in range(3))
    length = indices.shape[-1]
    rows = indices.reshape(prod(indices.shape[:-1]), length)
    values = updates.reshape(len(rows), *x.shape[length:])
    if not length:  # every update covers the whole tensor
        rows, values = np.zeros((len(rows), 1), np.int64), values[:, None]
        whole = _scattered(x[None], (rows[:, 0],), values[:, 0], attrs["reduction"])
        return (whole[0],)
    columns = tuple(checked("ScatterND", rows[:, k], x.shape[k]) for k in range(length))
    return (_scattered(x, columns, values, attrs["reduction"]),)


def _tuples_loops(types: Types, attrs: Attrs, outputs: Results) -> Kernel:
    """Tuples in order; one with an index outside its axis is a fault."""
    shape, indexed = required(types, 0).shape, required(types, 1).shape
    length, reduction = indexed[-1], attrs["reduction"]
    width = prod(shape[length:])

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x, indices, updates = (required(inputs, i) for i in range(3))
        places = [cell(f"at{k}") for k in range(length)]
        row = cell("row")

        def one(t: Expr) -> Stmt:
            found = [
                put(places[k], wrapped(read(indices, [add(mul(t, const(length)), const(k))]), shape[k]))
                for k in range(length)
            ]
            valid = logical_and(
                const(True, BOOL), *(_inside(get(p), n) for p, n in zip(places, shape, strict=False))
            )
            start = put(row, mul(flat(shape[:length], [get(p) for p in places]), const(width)))

            def element(s: Expr) -> Stmt:
                update = read(updates, [add(mul(t, const(width)), s)])
                return _combined(results[0], add(get(row), s), update, reduction)

            write = seq(start, loop("s", width, element))
            report = seq(*(_reported(p, n) for p, n in zip(places, shape, strict=False)))
            return with_cells([*places, row], seq(*found, If(valid, write, report)))

        return seq(copied(results[0], x), loop("t", prod(indexed[:-1]), one))

    return loop_program("scatter_nd", types, outputs, body)


operator(
    "ScatterND",
    "x with slices written at the index tuples along the last axis of indices, or combined",
    [Operand("x"), Operand("indices", ("i64",)), Operand("updates")],
    [Operand("y")],
    _tuples_infer,
    _tuples_evaluate,
    {"reduction": Attr("str", "none")},
    loops=_tuples_loops,
)
