"""Pools beside maximum and mean: p-norms, the places of maxima, and overlapping blocks put back together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import VerifyError
from tilewright.expr import (
    Expr,
    add,
    binary,
    call,
    cast,
    const,
    floordiv,
    logical_and,
    mod,
    mul,
    read,
    select,
)
from tilewright.ops.declaration import FLOATS, NUMBERS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.reading import accumulated
from tilewright.ops.windows import Window, pad_for, tap_view, windows
from tilewright.tensor.ir import Axis, Tensor, compute, min_over, reduce_axis, sum_over
from tilewright.types import TensorType

_WINDOW = {
    "kernel_shape": Attr("ints", required=True),
    "strides": Attr("ints"),
    "dilations": Attr("ints"),
    "pads": Attr("ints"),
    "ceil_mode": Attr("int", 0),
}
_MAX_TYPES = (*FLOATS, "i8", "u8")
_NOWHERE = 2**63 - 1


def _over(name: str, x: Sequence[int], attrs: Attrs) -> tuple[Window, ...]:
    if len(x) < 3:
        raise VerifyError(f"{name}: input has rank {len(x)}, expected 3 to 5")
    return windows(name, x, attrs["kernel_shape"], attrs)


def _taps(name: str, over: Sequence[Window]) -> list[Axis]:
    return [reduce_axis(w.kernel, f"{name}.k{i}") for i, w in enumerate(over)]


def _inside(over: Sequence[Window], taps: Sequence[Axis], i: Sequence[Expr]) -> tuple[list[Expr], Expr]:
    """Where window i reads with the taps, and the condition under which that is no padding."""
    positions = [w.position(p, t.var) for w, p, t in zip(over, i[2:], taps, strict=True)]
    guards = [g for w, p in zip(over, positions, strict=True) for g in w.guards(p)]
    return positions, logical_and(*guards)


def _lp_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    over = _over("LpPool", x.shape, attrs)
    if attrs["p"] < 1:
        raise VerifyError(f"LpPool: the norm's order p is {attrs['p']}, expected 1 or more")
    return (TensorType(x.dtype, (*x.shape[:2], *(w.outputs for w in over))),)


def _lp_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, p = required(arrays, 0), attrs["p"]
    over = _over("LpPool", x.shape, attrs)
    padded = pad_for(np.abs(x.astype(wide(x.dtype), copy=False)) ** p, over, 0)
    total = np.zeros((*x.shape[:2], *(w.outputs for w in over)), padded.dtype)
    for tap in np.ndindex(*(w.kernel for w in over)):
        total += tap_view(padded, over, tap)
    return ((total ** (1 / p)).astype(x.dtype, copy=False),)


def _power(x: Expr, p: int) -> Expr:
    """|x| to the power p; the first two without `pow`."""
    if p == 2:
        return mul(x, x)
    size = call("abs", x)
    return size if p == 1 else binary("pow", size, const(p, x.dtype))


def _root(x: Expr, p: int) -> Expr:
    if p == 2:
        return call("sqrt", x)
    return x if p == 1 else binary("pow", x, const(1 / p, x.dtype))


def _lp_compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    x, p = required(tensors, 0), attrs["p"]
    over = _over("LpPool", x.shape, attrs)
    taps = _taps("lppool", over)

    def element(*i: Expr) -> Expr:
        positions, inside = _inside(over, taps, i)
        value = select(inside, read(x, [*i[:2], *positions]), const(0, x.dtype))
        return sum_over(_power(accumulated(value), p), *taps)

    total = compute(types[0].shape, element, "lppool_sum")
    return (compute(total.shape, lambda *i: cast(_root(read(total, i), p), x.dtype), "lppool"),)


operator(
    "LpPool",
    "p-norm of each window; padding counts as zero",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    _lp_infer,
    _lp_evaluate,
    {**_WINDOW, "p": Attr("int", 2)},
    Fusion.REDUCTION,
    compute=_lp_compute,
)


def _indices_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, y = required(types, 0), required(types, 1)
    over = _over("MaxPoolIndices", x.shape, attrs)
    shape = (*x.shape[:2], *(w.outputs for w in over))
    if y.shape != shape or y.dtype != x.dtype:
        raise VerifyError(f"MaxPoolIndices: maxima are {y}, expected {x.dtype} and shape {list(shape)}")
    return (TensorType(I64, shape),)


def _indices_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, y = required(arrays, 0), required(arrays, 1)
    over = _over("MaxPoolIndices", x.shape, attrs)
    spatial = x.shape[2:]
    places = np.arange(prod(spatial)).reshape(spatial)
    if attrs["storage_order"]:
        places = np.arange(prod(spatial)).reshape(spatial[::-1]).transpose()
    plane = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *(1 for _ in spatial)) * prod(spatial)
    marks = pad_for(np.broadcast_to(places + plane, x.shape), over, -1)
    values = pad_for(x, over, 0)
    found = np.full(y.shape, -1, np.int64)
    for tap in np.ndindex(*(w.kernel for w in over)):
        value, mark = tap_view(values, over, tap), tap_view(marks, over, tap)
        with np.errstate(invalid="ignore"):
            same = (value == y) | ((value != value) & (y != y))
        found = np.where((found < 0) & (mark >= 0) & same, mark, found)
    return (found,)


def _indices_compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """The smallest row-major place in a plane that holds the maximum, then its number in the whole tensor."""
    x, y = required(tensors, 0), required(tensors, 1)
    over = _over("MaxPoolIndices", x.shape, attrs)
    taps = _taps("maxindex", over)
    spatial, channels = x.shape[2:], x.shape[1]

    def first(*i: Expr) -> Expr:
        positions, inside = _inside(over, taps, i)
        value, highest = read(x, [*i[:2], *positions]), read(y, i)
        same = binary("eq", value, highest)
        if x.dtype.is_float:
            both = logical_and(binary("ne", value, value), binary("ne", highest, highest))
            same = binary("or", same, both)
        flat: Expr = const(0)
        for extent, position in zip(spatial, positions, strict=True):
            flat = add(mul(flat, const(extent)), position)
        hit = select(inside, select(same, flat, const(_NOWHERE)), const(_NOWHERE))
        return min_over(hit, *taps)

    place = compute(types[0].shape, first, "maxindex_place")

    def number(*i: Expr) -> Expr:
        flat = read(place, i)
        within = _column_major(flat, spatial) if attrs["storage_order"] else flat
        plane = add(mul(i[0], const(channels)), i[1])
        whole = add(mul(plane, const(prod(spatial))), within)
        return select(binary("eq", flat, const(_NOWHERE)), const(-1), whole)

    return (compute(types[0].shape, number, "maxindex"),)


def _column_major(flat: Expr, extents: Sequence[int]) -> Expr:
    """The number of a row-major place when the first axis runs fastest."""
    result: Expr = const(0)
    below = prod(extents)
    step = 1
    for extent in extents:
        below //= extent
        index = mod(floordiv(flat, const(below)), const(extent))
        result = add(result, mul(index, const(step)))
        step *= extent
    return result


operator(
    "MaxPoolIndices",
    "where MaxPool found its maxima y, the first of equal ones: flat places in x, -1 for a window of padding",
    [Operand("x", _MAX_TYPES), Operand("y", _MAX_TYPES)],
    [Operand("indices", ("i64",))],
    _indices_infer,
    _indices_evaluate,
    {**_WINDOW, "storage_order": Attr("int", 0)},
    Fusion.OPAQUE,
    compute=_indices_compute,
)


def _blocks(x: Sequence[int], attrs: Attrs) -> tuple[tuple[Window, ...], int]:
    """The windows of the image that the columns came from, and the channels. Raises VerifyError."""
    image, kernel = tuple(attrs["image_shape"]), tuple(attrs["block_shape"])
    taps = prod(kernel)
    if len(x) != 3 or len(image) != len(kernel) or min(kernel, default=0) < 1 or x[1] % taps:
        raise VerifyError(
            f"Col2Im: columns {list(x)} do not fit blocks {list(kernel)} of an image {list(image)}"
        )
    over = windows("Col2Im", (x[0], x[1] // taps, *image), kernel, attrs)
    count = prod(w.outputs for w in over)
    if count != x[2]:
        raise VerifyError(f"Col2Im: the image has {count} blocks, the columns are {x[2]}")
    return over, x[1] // taps


def _fold_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    over, channels = _blocks(x.shape, attrs)
    return (TensorType(x.dtype, (x.shape[0], channels, *(w.extent for w in over))),)


def _fold_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    over, channels = _blocks(x.shape, attrs)
    kernel, outputs = tuple(w.kernel for w in over), tuple(w.outputs for w in over)
    parts = x.astype(wide(x.dtype), copy=False).reshape(x.shape[0], channels, *kernel, *outputs)
    image = np.zeros((x.shape[0], channels, *(w.extent for w in over)), parts.dtype)
    padded = pad_for(image, over, 0)
    padded = padded.copy() if padded is image else padded
    for tap in np.ndindex(*kernel):
        tap_view(padded, over, tap)[...] += parts[(slice(None), slice(None), *tap)]
    inside = tuple(slice(w.before, w.before + w.extent) for w in over)
    return (padded[(slice(None), slice(None), *inside)].astype(x.dtype, copy=False),)


def _fold_compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """Each pixel adds up what the blocks that cover it hold for it."""
    x = required(tensors, 0)
    over, _ = _blocks(x.shape, attrs)
    taps = _taps("col2im", over)

    def element(*i: Expr) -> Expr:
        guards: list[Expr] = []
        row: Expr = i[1]
        column: Expr = const(0)
        for w, tap, pixel in zip(over, taps, i[2:], strict=True):
            distance = add(add(pixel, const(w.before)), mul(tap.var, const(-w.dilation)))
            block = floordiv(distance, const(w.stride))
            if w.stride > 1:
                guards.append(binary("eq", mod(distance, const(w.stride)), const(0)))
            guards += [binary("ge", block, const(0)), binary("lt", block, const(w.outputs))]
            row = add(mul(row, const(w.kernel)), tap.var)
            column = add(mul(column, const(w.outputs)), block)
        value = select(logical_and(*guards), read(x, [i[0], row, column]), const(0, x.dtype))
        return sum_over(accumulated(value), *taps)

    total = compute(types[0].shape, element, "col2im")
    if total.dtype == x.dtype:
        return (total,)
    return (compute(total.shape, lambda *i: cast(read(total, i), x.dtype), "col2im_out"),)


operator(
    "Col2Im",
    "columns of blocks [N, C prod(block), L] put back into images; overlapping blocks add up",
    [Operand("x", NUMBERS)],
    [Operand("y", NUMBERS)],
    _fold_infer,
    _fold_evaluate,
    {
        "image_shape": Attr("ints", required=True),
        "block_shape": Attr("ints", required=True),
        "strides": Attr("ints"),
        "dilations": Attr("ints"),
        "pads": Attr("ints"),
    },
    Fusion.REDUCTION,
    compute=_fold_compute,
)
