"""GridSample: pixels read at positions that another tensor gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import F32, F64, I32, I64, DType
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
    mod,
    mul,
    read,
    select,
    sub,
)
from tilewright.ops.declaration import FLOATS, NUMBERS, operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

_ANY = (*NUMBERS, "bool")
_CUBIC = -0.75
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
_PADDINGS = ("zeros", "border", "reflection")


def working_type(dtype: DType) -> DType:
    """In which weights and sums are computed: float64 for what float32 cannot hold."""
    return F64 if dtype.bits > 16 and dtype not in (F32,) else F32


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, grid = required(types, 0), required(types, 1)
    rank = x.rank - 2
    if rank < 1 or grid.rank != x.rank or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
        raise VerifyError(f"GridSample: a grid of shape {list(grid.shape)} does not fit x {list(x.shape)}")
    if attrs["mode"] not in _TAPS or attrs["padding_mode"] not in _PADDINGS:
        raise VerifyError(f"GridSample: unknown mode '{attrs['mode']}' or padding '{attrs['padding_mode']}'")
    shape = (*x.shape[:2], *grid.shape[1:-1])
    if prod(shape) and not prod(x.shape[2:]):
        raise VerifyError(f"GridSample: x {list(x.shape)} has no pixels to sample")
    if x.dtype.name == "bool" and attrs["mode"] != "nearest":
        raise VerifyError("GridSample: truth values need the mode nearest")
    return (TensorType(x.dtype, shape),)


def _borders(extent: int, align_corners: int) -> tuple[float, float]:
    return (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)


def _position(v: Expr, extent: int, attrs: Attrs) -> Expr:
    """The pixel coordinate of a normalised one, with the padding mode applied, never far outside."""

    def number(n: float) -> Expr:
        return const(n, v.dtype)

    one = number(1)
    if attrs["align_corners"]:
        p = (v + one) / number(2) * number(extent - 1)
    else:
        p = ((v + one) * number(extent) - one) / number(2)
    if attrs["mode"] == "nearest":
        p = call("round", p)
    low, high = _borders(extent, attrs["align_corners"])
    outside = binary("or", p < low, p > high)
    if attrs["padding_mode"] == "border" and attrs["mode"] != "cubic":  # cubic: each neighbour by itself
        return select(outside, minimum(maximum(p, number(0)), number(extent - 1)), p)
    if attrs["padding_mode"] == "reflection":
        span = high - low
        if span == 0:
            return mul(p, number(0))
        turn = number(2 * span)
        offset = p - number(low)
        there = offset - call("floor", offset / turn) * turn
        return select(outside, minimum(there, turn - there) + number(low), p)
    # Beyond this every neighbour is outside; the limit keeps the conversion to an integer defined.
    return minimum(maximum(p, number(-8)), number(extent + 8))


def _pixel(place: Expr, extent: int, attrs: Attrs) -> tuple[Expr, list[Expr]]:
    """An index that is always inside, and the conditions under which it is not padding."""
    if attrs["padding_mode"] == "zeros":
        return place, [binary("ge", place, const(0)), binary("lt", place, const(extent))]
    if attrs["padding_mode"] == "border":
        return minimum(maximum(place, const(0)), const(extent - 1)), []
    if extent == 1:
        return const(0), []
    if attrs["align_corners"]:
        period = const(2 * (extent - 1))
        there = mod(place, period)
        return minimum(there, sub(period, there)), []
    period = const(2 * extent)
    there = mod(place, period)
    return minimum(there, sub(sub(period, const(1)), there)), []


def _weight(fraction: Expr, tap: Expr, mode: str) -> Expr:
    """The weight of neighbour `tap` for a point that lies `fraction` behind neighbour 0 (cubic: 1)."""
    dtype = fraction.dtype
    if mode == "linear":
        return select(binary("eq", tap, const(0)), const(1, dtype) - fraction, fraction)
    a = _CUBIC
    d = call("abs", fraction + const(1, dtype) - cast(tap, dtype))

    def n(value: float) -> Expr:
        return const(value, dtype)

    near = (n(a + 2) * d - n(a + 3)) * d * d + n(1)
    far = ((n(a) * d - n(5 * a)) * d + n(8 * a)) * d - n(4 * a)
    return select(binary("le", d, n(1)), near, far)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """All channels share the stages of neighbours and weights, so the last one only reads and adds."""
    x, grid = required(tensors, 0), required(tensors, 1)
    rank, mode, work = len(x.shape) - 2, attrs["mode"], working_type(x.dtype)
    found = [_neighbours(grid, axis, x.shape[2:], work, attrs) for axis in range(rank)]
    taps = [reduce_axis(_TAPS[mode], f"gridsample.t{axis}") for axis in range(rank)]

    def element(*i: Expr) -> Expr:
        where = [[i[0], const(0) if mode == "nearest" else tap.var, *i[2:]] for tap in taps]
        places = [read(at, w) for (at, _), w in zip(found, where, strict=True)]
        pixel = read(x, [i[0], i[1], *(cast(place, I64) for place in places)])
        if attrs["padding_mode"] == "zeros":
            inside = logical_and(*(binary("ge", place, const(0, I32)) for place in places))
            pixel = select(inside, pixel, const(0, x.dtype))
        if mode == "nearest":
            return pixel
        weighted = cast(pixel, work)
        for (_, share), w in zip(found, where, strict=True):
            weighted = mul(weighted, read(share, w))
        return sum_over(weighted, *taps)

    y = compute(types[0].shape, element, "gridsample")
    if y.dtype == x.dtype:
        return (y,)
    return (compute(y.shape, lambda *i: cast(read(y, i), x.dtype), "gridsample_out"),)


def _neighbours(
    grid: Tensor, axis: int, extents: Sequence[int], work: DType, attrs: Attrs
) -> tuple[Tensor, Tensor]:
    """Neighbours of every sample on one axis, i32[N, taps, outputs...], -1 in the padding; their weights.

    Grids name the innermost axis first.
    """
    where, mode, extent = working_type(grid.dtype), attrs["mode"], extents[axis]
    outputs = grid.shape[1:-1]
    number = const(len(extents) - 1 - axis)

    def at(*i: Expr) -> Expr:
        return _position(cast(read(grid, [*i, number]), where), extent, attrs)

    position = compute((grid.shape[0], *outputs), at, f"gridsample_at{axis}")

    def place(*i: Expr) -> Expr:
        below = cast(call("floor", read(position, [i[0], *i[2:]])), I64)
        first = below if mode == "nearest" else add(below, i[1])
        index, guards = _pixel(add(first, const(-1)) if mode == "cubic" else first, extent, attrs)
        return cast(select(logical_and(*guards), index, const(-1)), I32)

    def weight(*i: Expr) -> Expr:
        p = read(position, [i[0], *i[2:]])
        return _weight(cast(sub(p, call("floor", p)), work), i[1], mode)

    shape = (grid.shape[0], _TAPS[mode], *outputs)
    places = compute(shape, place, f"gridsample_place{axis}")
    if mode == "nearest":
        return places, places
    return places, compute(shape, weight, f"gridsample_weight{axis}")


def _positions(grid: np.ndarray, axis: int, extents: Sequence[int], attrs: Attrs) -> np.ndarray:
    """`_position` of one axis for a whole grid."""
    v, extent = grid[..., len(extents) - 1 - axis], extents[axis]
    p = (v + 1) / 2 * (extent - 1) if attrs["align_corners"] else ((v + 1) * extent - 1) / 2
    if attrs["mode"] == "nearest":
        p = np.rint(p)
    low, high = _borders(extent, attrs["align_corners"])
    outside = (p < low) | (p > high)
    if attrs["padding_mode"] == "border" and attrs["mode"] != "cubic":
        return np.where(outside, np.clip(p, 0, extent - 1), p)
    if attrs["padding_mode"] != "reflection":
        return np.clip(p, -8, extent + 8)
    if high == low:
        return p * 0
    there = np.mod(p - low, 2 * (high - low))
    return np.where(outside, np.minimum(there, 2 * (high - low) - there) + low, p)


def _pixels(place: np.ndarray, extent: int, attrs: Attrs) -> tuple[np.ndarray, np.ndarray]:
    """`_pixel` for whole arrays: indices and which of them count."""
    everywhere = np.ones(place.shape, bool)
    if attrs["padding_mode"] == "zeros":
        return np.clip(place, 0, extent - 1), (place >= 0) & (place < extent)
    if attrs["padding_mode"] == "border" or extent == 1:
        return np.clip(place, 0, extent - 1), everywhere
    period = 2 * (extent - 1) if attrs["align_corners"] else 2 * extent
    there = np.mod(place, period)
    back = period - there if attrs["align_corners"] else period - 1 - there
    return np.minimum(there, back), everywhere


def _weights(fraction: np.ndarray, mode: str) -> list[np.ndarray]:
    if mode == "nearest":
        return [np.ones_like(fraction)]
    if mode == "linear":
        return [1 - fraction, fraction]
    a = _CUBIC
    near: Callable[[Any], Any] = lambda d: ((a + 2) * d - (a + 3)) * d * d + 1  # noqa: E731
    far: Callable[[Any], Any] = lambda d: ((a * d - 5 * a) * d + 8 * a) * d - 4 * a  # noqa: E731
    return [far(fraction + 1), near(fraction), near(1 - fraction), far(2 - fraction)]


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, grid = required(arrays, 0), required(arrays, 1)
    extents, mode = x.shape[2:], attrs["mode"]
    work = working_type(DType.of(x.dtype)).numpy
    grid = grid.astype(working_type(DType.of(grid.dtype)).numpy, copy=False)
    shape = (*x.shape[:2], *grid.shape[1:-1])
    total = np.zeros(shape, x.dtype if mode == "nearest" else work)
    positions = [_positions(grid, axis, extents, attrs) for axis in range(len(extents))]
    firsts = [np.floor(p) for p in positions]
    weights = [_weights((p - f).astype(work), mode) for p, f in zip(positions, firsts, strict=True)]
    batch = np.arange(x.shape[0]).reshape(-1, *(1 for _ in extents))
    channels_last = np.moveaxis(x, 1, -1)
    for taps in product(range(_TAPS[mode]), repeat=len(extents)):
        indices, counts, weight = [], np.ones((), bool), np.ones((), work)
        for axis, tap in enumerate(taps):
            with np.errstate(invalid="ignore"):
                place = firsts[axis].astype(np.int64) + tap - (mode == "cubic")
            index, inside = _pixels(place, extents[axis], attrs)
            indices.append(index)
            counts = counts & inside
            weight = weight * weights[axis][tap]
        pixels = np.where(counts[..., None], channels_last[(batch, *indices)], x.dtype.type(0))
        part = pixels if mode == "nearest" else pixels.astype(work) * weight[..., None]
        total = total | np.moveaxis(part, -1, 1) if x.dtype == bool else total + np.moveaxis(part, -1, 1)
    return (total.astype(x.dtype),)


operator(
    "GridSample",
    "x read at normalised positions, innermost axis first; outside lie zeros, the border or mirror images",
    [Operand("x", _ANY), Operand("grid", FLOATS)],
    [Operand("y", _ANY)],
    _infer,
    _evaluate,
    {
        "mode": Attr("str", "linear"),
        "padding_mode": Attr("str", "zeros"),
        "align_corners": Attr("int", 0),
    },
    Fusion.OPAQUE,
    compute=_compute,
)
