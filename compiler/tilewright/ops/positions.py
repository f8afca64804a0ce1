"""Operators whose elements depend on their position: OneHot, Trilu, ReverseSequence, TensorScatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import BOOL, I64
from tilewright.errors import VerifyError
from tilewright.expr import (
    Expr,
    binary,
    cast,
    const,
    logical_and,
    maximum,
    minimum,
    mod,
    read,
    select,
    sub,
)
from tilewright.ops.declaration import NUMBERS, operator, required, same_dtype
from tilewright.ops.gather_elements import wrapped
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Tensors = Sequence[Tensor | None]
Results = Sequence[TensorType]
_INDEX = ("i32", "i64")


def _one_hot_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    indices, values, axis, depth = required(types, 0), required(types, 1), attrs["axis"], attrs["depth"]
    if not 0 <= axis <= indices.rank or depth < 0:
        raise VerifyError(f"OneHot: axis {axis} and depth {depth} with indices of rank {indices.rank}")
    if values.shape != (2,):
        raise VerifyError(f"OneHot: values are two numbers, found shape {list(values.shape)}")
    return (TensorType(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:])),)


def _one_hot_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    indices, values, axis, depth = required(arrays, 0), required(arrays, 1), attrs["axis"], attrs["depth"]
    with np.errstate(invalid="ignore"):
        hot = np.expand_dims(indices.astype(np.int64), axis)
    hot = np.where(hot < 0, hot + depth, hot)
    view = [1] * hot.ndim
    view[axis] = depth
    return (np.where(hot == np.arange(depth).reshape(view), values[1], values[0]),)


def _one_hot_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    indices, values, axis, depth = required(tensors, 0), required(tensors, 1), attrs["axis"], attrs["depth"]

    def element(*i: Expr) -> Expr:
        hot = wrapped(read(indices, [*i[:axis], *i[axis + 1 :]]), depth)
        return select(binary("eq", hot, i[axis]), read(values, [1]), read(values, [0]))

    return (compute(types[0].shape, element, "one_hot"),)


operator(
    "OneHot",
    "values[1] where the position along the new axis is the index, else values[0]; negative indices wrap",
    [Operand("indices", NUMBERS), Operand("values")],
    [Operand("y")],
    _one_hot_infer,
    _one_hot_evaluate,
    {"depth": Attr("int", required=True), "axis": Attr("int", required=True)},
    Fusion.INJECTIVE,
    compute=_one_hot_compute,
)


def _trilu_infer(types: Types, _: Attrs) -> tuple[TensorType, ...]:
    x, k = required(types, 0), types[1]
    if x.rank < 2 or (k is not None and k.size != 1):
        raise VerifyError(f"Trilu: needs matrices and one diagonal, found shape {list(x.shape)}")
    return (TensorType(x.dtype, x.shape),)


def _trilu_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, k = required(arrays, 0), arrays[1]
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    distance = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    kept = distance >= diagonal if attrs["upper"] else distance <= diagonal
    return (np.where(kept, x, x.dtype.type(0)),)


def _trilu_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, k = required(tensors, 0), tensors[1]

    def element(*i: Expr) -> Expr:
        diagonal = const(0) if k is None else read(k, [0] * len(k.shape))
        kept = binary("ge" if attrs["upper"] else "le", sub(i[-1], i[-2]), diagonal)
        return select(kept, read(x, i), const(0, x.dtype))

    return (compute(types[0].shape, element, "trilu"),)


operator(
    "Trilu",
    "the upper (or lower) triangle of each matrix from diagonal k on, zero elsewhere",
    [Operand("x"), Operand("k", ("i64",), optional=True)],
    [Operand("y")],
    _trilu_infer,
    _trilu_evaluate,
    {"upper": Attr("bool", True)},
    Fusion.INJECTIVE,
    compute=_trilu_compute,
)


def _reverse_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, lengths = required(types, 0), required(types, 1)
    time, batch = attrs["time_axis"], attrs["batch_axis"]
    if time == batch or not (0 <= time < x.rank and 0 <= batch < x.rank):
        raise VerifyError(f"ReverseSequence: axes {time} and {batch} of a tensor of rank {x.rank}")
    if lengths.shape != (x.shape[batch],):
        raise VerifyError(
            f"ReverseSequence: lengths have shape {list(lengths.shape)}, expected [{x.shape[batch]}]"
        )
    return (TensorType(x.dtype, x.shape),)


def _reverse_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, lengths = required(arrays, 0), required(arrays, 1)
    grid: list[np.ndarray] = list(np.indices(x.shape, sparse=True))
    time = grid[attrs["time_axis"]]
    length = np.clip(lengths, 0, x.shape[attrs["time_axis"]])[grid[attrs["batch_axis"]]]
    grid[attrs["time_axis"]] = np.where(time < length, length - 1 - time, time)
    return (x[tuple(grid)],)


def _reverse_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, lengths = required(tensors, 0), required(tensors, 1)
    time, batch = attrs["time_axis"], attrs["batch_axis"]

    def element(*i: Expr) -> Expr:
        given = cast(read(lengths, [i[batch]]), I64)
        length = maximum(minimum(given, const(x.shape[time])), const(0))
        mirrored = select(i[time] < length, sub(sub(length, const(1)), i[time]), i[time])
        return read(x, [*i[:time], mirrored, *i[time + 1 :]])

    return (compute(types[0].shape, element, "reverse_sequence"),)


operator(
    "ReverseSequence",
    "the first lengths[b] elements along the time axis in reverse order, the rest as they are",
    [Operand("x"), Operand("lengths", _INDEX)],
    [Operand("y")],
    _reverse_infer,
    _reverse_evaluate,
    {"time_axis": Attr("int", required=True), "batch_axis": Attr("int", required=True)},
    Fusion.INJECTIVE,
    compute=_reverse_compute,
)

_CACHE_MODES = ("linear", "circular")


def _update_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    cache, update, starts, axis = required(types, 0), required(types, 1), types[2], attrs["axis"]
    same_dtype("TensorScatter", types[:2])
    if attrs["mode"] not in _CACHE_MODES:
        raise VerifyError(f"TensorScatter: mode '{attrs['mode']}' is unknown, expected linear or circular")
    if not 0 < axis < cache.rank or update.rank != cache.rank:
        raise VerifyError(
            f"TensorScatter: axis {axis}, cache {list(cache.shape)}, update {list(update.shape)}"
        )
    others = [axis_ for axis_ in range(cache.rank) if axis_ != axis]
    if any(cache.shape[o] != update.shape[o] for o in others) or update.shape[axis] > cache.shape[axis]:
        raise VerifyError(
            f"TensorScatter: an update of shape {list(update.shape)} does not fit {list(cache.shape)}"
        )
    if starts is not None and starts.shape != cache.shape[:1]:
        raise VerifyError(f"TensorScatter: write indices have shape {list(starts.shape)}")
    return (TensorType(cache.dtype, cache.shape),)


def _update_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    cache, update, starts, axis = required(arrays, 0), required(arrays, 1), arrays[2], attrs["axis"]
    result, extent, length = cache.copy(), cache.shape[axis], update.shape[axis]
    for row in range(cache.shape[0]):
        places = np.arange(length) + (0 if starts is None else int(starts[row]))
        places = places % extent if attrs["mode"] == "circular" and extent else places
        inside = np.flatnonzero((places >= 0) & (places < extent))
        where = (slice(None),) * (axis - 1)
        result[(row, *where, places[inside])] = update[(row, *where, inside)]
    return (result,)


def _update_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    cache, update, starts, axis = required(tensors, 0), required(tensors, 1), tensors[2], attrs["axis"]
    extent, length = cache.shape[axis], update.shape[axis]

    def element(*i: Expr) -> Expr:
        start = const(0) if starts is None else read(starts, [i[0]])
        place = sub(i[axis], start)
        if attrs["mode"] == "circular":
            place = mod(place, const(extent))
        inside = logical_and(
            binary("ge", place, const(0)), binary("lt", place, const(length)), const(length > 0, BOOL)
        )
        return select(inside, read(update, [*i[:axis], place, *i[axis + 1 :]]), read(cache, i))

    return (compute(types[0].shape, element, "tensor_scatter"),)


operator(
    "TensorScatter",
    "cache with update written from write_indices[b] on along an axis; circular wraps at the end",
    [Operand("cache"), Operand("update"), Operand("write_indices", ("i64",), optional=True)],
    [Operand("y")],
    _update_infer,
    _update_evaluate,
    {"axis": Attr("int", required=True), "mode": Attr("str", "linear")},
    Fusion.INJECTIVE,
    compute=_update_compute,
)
