"""NonZero and Compress: as many results as the data say. They stand at their bound, beside the count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, const, mul, read
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, seq
from tilewright.ops.declaration import operator, required
from tilewright.ops.looping import (
    PARALLEL_ELEMENTS,
    around,
    cell,
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
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
COUNT = TensorType(I64, ())


def cleared(target: Buffer) -> Stmt:
    """Zeros everywhere: what lies beyond the count is read, though it never matters."""
    zero = const(0, target.dtype)
    return loop("z", target.size, lambda z: store(target, z, zero), target.size >= PARALLEL_ELEMENTS)


def padded(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The array in front, zeros up to the bound behind it."""
    whole = np.zeros(shape, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


def _nonzero_infer(types: Types, _: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    return (TensorType(I64, (x.rank, x.size)), COUNT)


def _nonzero_evaluate(arrays: Arrays, _: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    if x.ndim == 0:
        return np.zeros((0, 1), np.int64), np.array(int(bool(x)), np.int64)
    found = np.array(np.nonzero(x), np.int64)
    return padded(found, (x.ndim, x.size)), np.array(found.shape[1], np.int64)


def _nonzero_loops(types: Types, _: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    shape, size = required(types, 0).shape, required(types, 0).size

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x, (indices, count), found = required(inputs, 0), results, cell("found")

        def element(at: Sequence[Expr]) -> Stmt:
            rows = (store(indices, add(const(axis * size), get(found)), i) for axis, i in enumerate(at))
            hit = seq(*rows, put(found, add(get(found), const(1))))
            return If(binary("ne", read(x, [flat(shape, at)]), const(0, x.dtype)), hit)

        search = seq(put(found, 0), nest("i", shape, element), store(count, const(0), get(found)))
        return with_cells([found], seq(cleared(indices), search))

    return loop_program("nonzero", types, outputs, body)


operator(
    "NonZero",
    "the places of the elements that are not zero, one row an axis, and how many they are",
    [Operand("x")],
    [Operand("indices"), Operand("count")],
    _nonzero_infer,
    _nonzero_evaluate,
    loops=_nonzero_loops,
)


def _compress_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, condition, axis = required(types, 0), required(types, 1), attrs["axis"]
    if not 0 <= axis < x.rank or condition.rank != 1:
        raise VerifyError(f"Compress: axis {axis} of {x} by a condition {condition}, expected a row of bool")
    kept = min(condition.shape[0], x.shape[axis])
    return (TensorType(x.dtype, (*x.shape[:axis], kept, *x.shape[axis + 1 :])), COUNT)


def _compress_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, condition, axis = required(arrays, 0), required(arrays, 1), attrs["axis"]
    bound = min(condition.size, x.shape[axis])
    found = np.take(x, np.flatnonzero(condition[:bound]), axis=axis)
    shape = (*x.shape[:axis], bound, *x.shape[axis + 1 :])
    return padded(found, shape), np.array(found.shape[axis], np.int64)


def _compress_loops(types: Types, attrs: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    before, extent, behind = around(required(types, 0).shape, attrs["axis"])
    bound = outputs[0].shape[attrs["axis"]]

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x, condition, (y, count), found = required(inputs, 0), required(inputs, 1), results, cell("found")

        def element(n: Expr) -> Stmt:
            copy = slice_copy(y, x, (before, bound, extent, behind), get(found), lambda: n)
            kept = seq(copy, put(found, add(get(found), const(1))))
            return If(binary("ne", read(condition, [n]), const(False, condition.dtype)), kept)

        search = seq(put(found, 0), loop("n", bound, element), store(count, const(0), get(found)))
        return with_cells([found], seq(cleared(y), search))

    return loop_program("compress", types, outputs, body)


def slice_copy(
    y: Buffer, x: Buffer, extents: tuple[int, int, int, int], to: Expr, source: Callable[[], Expr]
) -> Stmt:
    """Copy one slice along an axis; extents: before the axis, along it in y and in x, behind it."""
    before, bound, extent, behind = extents

    def element(o: Expr, i: Expr) -> Stmt:
        target = add(mul(add(mul(o, const(bound)), to), const(behind)), i)
        return store(y, target, read(x, [add(mul(add(mul(o, const(extent)), source()), const(behind)), i)]))

    return loop("o", before, lambda o: loop("b", behind, lambda i: element(o, i)))


operator(
    "Compress",
    "the slices along an axis for which the condition holds, and how many they are",
    [Operand("x"), Operand("condition", ("bool",))],
    [Operand("y"), Operand("count")],
    _compress_infer,
    _compress_evaluate,
    {"axis": Attr("int", required=True)},
    loops=_compress_loops,
)
