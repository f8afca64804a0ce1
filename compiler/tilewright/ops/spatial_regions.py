"""Pools over regions of interest. How many pixels a region covers depends on the data: loop programs."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

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
    logical_and,
    maximum,
    minimum,
    mul,
    read,
    select,
    sub,
)
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, seq
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.looping import cell, flat, get, loop, loop_program, nest, put, store, with_cells
from tilewright.ops.operator import REGISTRY, Attr, Attrs, Operand
from tilewright.ops.reading import accumulator
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Buffers = Sequence[Buffer | None]


def _full(name: str, attrs: Attrs) -> Attrs:
    """Loop programs see a node's own attributes: the declared defaults complete them."""
    return {key: attr.default for key, attr in REGISTRY[name].attrs.items()} | dict(attrs)


def _align_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, rois, batch = (required(types, i) for i in range(3))
    if x.rank != 4 or min(x.shape[2:]) < 1 or not x.shape[0]:
        raise VerifyError(f"RoiAlign: x has shape {list(x.shape)}, expected images [N, C, H, W] with pixels")
    if rois.rank != 2 or rois.shape[1] != 4 or batch.shape != rois.shape[:1]:
        raise VerifyError(
            f"RoiAlign: regions {list(rois.shape)}, batch indices {list(batch.shape)} do not fit"
        )
    if attrs["mode"] not in ("avg", "max"):
        raise VerifyError(f"RoiAlign: mode '{attrs['mode']}' is unknown, expected avg or max")
    if min(attrs["output_height"], attrs["output_width"]) < 1 or attrs["sampling_ratio"] < 0:
        raise VerifyError("RoiAlign: output sizes must be positive and the sampling ratio not negative")
    shape = (rois.shape[0], x.shape[1], attrs["output_height"], attrs["output_width"])
    return (TensorType(x.dtype, shape),)


def _samples(start: float, size: float, cells: int, ratio: int) -> np.ndarray:
    """Sampled coordinates of one axis of a region, [cells, samples in a cell]."""
    step = size / cells
    count = ratio if ratio > 0 else int(np.ceil(step)) if np.isfinite(step) else 0
    inner = (np.arange(max(0, count)) + 0.5) * step / max(1, count)
    return np.asarray(start + np.arange(cells)[:, None] * step + inner)


def _corners(at: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper pixel of coordinates, the share of the upper one, and which lie in the image."""
    inside = (at >= -1) & (at <= extent)
    at = np.where(inside, np.maximum(at, 0), 0)
    low = np.minimum(np.floor(at).astype(np.int64), extent - 1)
    share = np.where(low >= extent - 1, 0, at - low)
    return low, np.minimum(low + 1, extent - 1), share, inside


def _align_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, rois, batch = (required(arrays, i) for i in range(3))
    work = wide(x.dtype)
    planes, ratio = x.astype(work, copy=False), attrs["sampling_ratio"]
    cells = (attrs["output_height"], attrs["output_width"])
    y = np.zeros((len(rois), x.shape[1], *cells), work)
    for number, (roi, image) in enumerate(zip(rois.astype(work), batch, strict=True)):
        scaled = roi * work.type(attrs["spatial_scale"]) - (0.5 if attrs["half_pixel"] else 0)
        start, size = scaled[1::-1], (scaled[2:] - scaled[:2])[::-1]
        size = size if attrs["half_pixel"] else np.maximum(size, 1)
        axes = [
            _corners(_samples(start[axis], size[axis], cells[axis], ratio), x.shape[2 + axis])
            for axis in range(2)
        ]
        plane = planes[int(np.clip(image, 0, len(planes) - 1))]
        y[number] = _region(plane, axes, attrs["mode"])
    return (y.astype(x.dtype, copy=False),)


def _region(plane: np.ndarray, axes: Sequence[tuple[np.ndarray, ...]], mode: str) -> np.ndarray:
    """One region of [C, H, W] pooled to [C, cells...]: four weighted pixels a sample."""
    rows, columns = axes
    inside = rows[3][:, None, :, None] & columns[3][None, :, None, :]
    parts = []
    for row, row_share in ((rows[0], 1 - rows[2]), (rows[1], rows[2])):
        for column, column_share in ((columns[0], 1 - columns[2]), (columns[1], columns[2])):
            pixels = plane[:, row[:, None, :, None], column[None, :, None, :]]
            weight = row_share[:, None, :, None] * column_share[None, :, None, :]
            parts.append(np.where(inside, pixels * weight, 0))
    samples = inside.shape[2] * inside.shape[3]
    if not samples:
        return np.zeros((len(plane), *inside.shape[:2]), plane.dtype)
    if mode == "max":
        return np.asarray(np.maximum.reduce(parts).max(axis=(3, 4)))
    return np.asarray(sum(parts).sum(axis=(3, 4)) / samples)  # type: ignore[union-attr]


def _align_loops(types: Types, given: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    """For every region, channel and cell: samples of four weighted pixels, averaged or their maximum."""
    attrs = _full("RoiAlign", given)
    x_type, out = required(types, 0), outputs[0]
    work = accumulator(x_type.dtype)
    extents, cells = x_type.shape[2:], out.shape[2:]
    average = attrs["mode"] == "avg"

    def number(value: float) -> Expr:
        return const(value, work)

    def body(inputs: Buffers, results: Sequence[Buffer]) -> Stmt:
        x, rois, batch = (required(inputs, i) for i in range(3))
        starts, steps = ([cell(f"{kind}{axis}", work) for axis in range(2)] for kind in ("start", "step"))
        counts = [cell(f"count{axis}") for axis in range(2)]
        image = cell("image")
        total, seen = cell("total", work), cell("seen")
        lows, highs = ([cell(f"{kind}{axis}") for axis in range(2)] for kind in ("low", "high"))
        shares = [cell(f"share{axis}", work) for axis in range(2)]

        def region(roi: Expr) -> Stmt:
            """Start, size of a cell, and samples in a cell, for both axes; regions are x1 y1 x2 y2."""
            found: list[Stmt] = []
            for axis in range(2):
                low, high = (
                    mul(
                        cast(read(rois, [add(mul(roi, const(4)), const(place))]), work),
                        number(attrs["spatial_scale"]),
                    )
                    for place in (1 - axis, 3 - axis)
                )
                size = high - low if attrs["half_pixel"] else maximum(high - low, number(1))
                step = size / number(cells[axis])
                ratio = attrs["sampling_ratio"]
                samples = const(ratio) if ratio else cast(call("ceil", step), I64)
                found += [
                    put(starts[axis], low - number(0.5) if attrs["half_pixel"] else low),
                    put(steps[axis], step),
                    put(counts[axis], samples),
                ]
            wanted = cast(read(batch, [roi]), I64)
            found.append(put(image, maximum(minimum(wanted, const(x_type.shape[0] - 1)), const(0))))
            return seq(*found)

        def coordinate(axis: int, place: Expr, sample: Expr) -> Expr:
            step = get(steps[axis])
            inner = (cast(sample, work) + number(0.5)) * step / cast(get(counts[axis]), work)
            return get(starts[axis]) + cast(place, work) * step + inner

        def corners(axis: int, at: Expr) -> Stmt:
            last = const(extents[axis] - 1)
            positive = maximum(at, number(0))
            low = minimum(cast(positive, I64), last)
            part = positive - cast(get(lows[axis]), work)
            return seq(
                put(lows[axis], low),
                put(highs[axis], minimum(add(get(lows[axis]), const(1)), last)),
                put(shares[axis], select(binary("ge", get(lows[axis]), last), number(0), part)),
            )

        def weighted(channel: Expr) -> list[Expr]:
            products = []
            for row, upper in ((lows[0], False), (highs[0], True)):
                for column, right in ((lows[1], False), (highs[1], True)):
                    place = flat(x_type.shape, [get(image), channel, get(row), get(column)])
                    down = get(shares[0]) if upper else number(1) - get(shares[0])
                    across = get(shares[1]) if right else number(1) - get(shares[1])
                    products.append(mul(mul(down, across), cast(read(x, [place]), work)))
            return products

        def collect(value: Expr) -> Stmt:
            if average:
                return put(total, get(total) + value)
            first = binary("eq", get(seen), const(0))
            return seq(put(total, select(first, value, maximum(get(total), value))), put(seen, const(1)))

        def sample(channel: Expr, places: Sequence[Expr], samples: Sequence[Expr]) -> Stmt:
            at = [coordinate(axis, places[axis], samples[axis]) for axis in range(2)]
            limits = [
                condition
                for axis in range(2)
                for condition in (
                    binary("ge", at[axis], number(-1)),
                    binary("le", at[axis], number(extents[axis])),
                )
            ]
            a, b, c, d = weighted(channel)
            value = a + b + c + d if average else maximum(maximum(a, b), maximum(c, d))
            inner = seq(corners(0, at[0]), corners(1, at[1]), collect(value))
            return If(logical_and(*limits), inner, collect(number(0)))

        def pooled(roi: Expr, i: Sequence[Expr]) -> Stmt:
            channel, *places = i

            def inner(row: Expr) -> Stmt:
                return loop("ix", get(counts[1]), lambda column: sample(channel, places, [row, column]))

            sampled = loop("iy", get(counts[0]), inner)
            count = maximum(mul(get(counts[0]), get(counts[1])), const(1))
            value = get(total) / cast(count, work) if average else get(total)
            write = store(results[0], flat(out.shape, [roi, *i]), cast(value, out.dtype))
            return seq(put(total, number(0)), put(seen, const(0)), sampled, write)

        def one(roi: Expr) -> Stmt:
            return with_cells(
                [*starts, *steps, *counts, image, total, seen, *lows, *highs, *shares],
                seq(region(roi), nest("i", out.shape[1:], lambda i: pooled(roi, i))),
            )

        return loop("roi", out.shape[0], one, parallel=True)

    return loop_program("roi_align", types, outputs, body)


operator(
    "RoiAlign",
    "each region of interest sampled by linear interpolation on a grid of cells, averaged or the maximum",
    [Operand("x", FLOATS), Operand("rois", FLOATS), Operand("batch_indices", ("i64", "i32"))],
    [Operand("y", FLOATS)],
    _align_infer,
    _align_evaluate,
    {
        "mode": Attr("str", "avg"),
        "output_height": Attr("int", 1),
        "output_width": Attr("int", 1),
        "sampling_ratio": Attr("int", 0),
        "spatial_scale": Attr("float", 1.0),
        "half_pixel": Attr("bool", True),
    },
    loops=_align_loops,
)


def _max_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, rois = required(types, 0), required(types, 1)
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != 5 or not x.shape[0]:
        raise VerifyError(f"MaxRoiPool: x {list(x.shape)}, regions {list(rois.shape)} do not fit")
    pooled = tuple(attrs["pooled_shape"])
    if len(pooled) != 2 or min(pooled) < 1:
        raise VerifyError(f"MaxRoiPool: pooled shape {list(pooled)}, expected two positive numbers")
    return (TensorType(x.dtype, (rois.shape[0], x.shape[1], *pooled)),)


def _away(v: np.ndarray) -> np.ndarray:
    """Rounded to whole numbers, halves away from zero."""
    return np.where(v >= 0, np.floor(v + 0.5), np.ceil(v - 0.5))


def _max_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, rois = required(arrays, 0), required(arrays, 1)
    work, pooled = wide(x.dtype), attrs["pooled_shape"]
    y = np.zeros((len(rois), x.shape[1], *pooled), x.dtype)
    for number, roi in enumerate(rois.astype(work)):
        plane = x[int(np.clip(roi[0], 0, len(x) - 1))]
        bounds = _away(roi[1:] * work.type(attrs["spatial_scale"])).astype(np.int64)
        for row, column in np.ndindex(*pooled):
            parts = []
            for axis, place in enumerate((row, column)):
                low, high = bounds[1 - axis], bounds[3 - axis]
                step = work.type(max(high - low + 1, 1)) / work.type(pooled[axis])
                edges = (np.floor(place * step), np.ceil((place + 1) * step))
                parts.append(slice(*(int(np.clip(low + e, 0, x.shape[2 + axis])) for e in edges)))
            window = plane[:, parts[0], parts[1]]
            if window[0].size:
                y[number, :, row, column] = window.max(axis=(1, 2))
    return (y,)


def _away_expr(v: Expr) -> Expr:
    half = const(0.5, v.dtype)
    return select(binary("ge", v, const(0, v.dtype)), call("floor", v + half), call("ceil", v - half))


def _max_loops(types: Types, given: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    """For every region, channel and cell: the maximum of the pixels it covers, 0 when it covers none."""
    attrs = _full("MaxRoiPool", given)
    x_type, out = required(types, 0), outputs[0]
    work = accumulator(x_type.dtype)
    pooled = out.shape[2:]

    def body(inputs: Buffers, results: Sequence[Buffer]) -> Stmt:
        x, rois = required(inputs, 0), required(inputs, 1)
        image, best = cell("image"), cell("best", work)
        lows, steps = [cell(f"low{a}") for a in range(2)], [cell(f"step{a}", work) for a in range(2)]
        froms, ends = [cell(f"from{a}") for a in range(2)], [cell(f"end{a}") for a in range(2)]

        def number(roi: Expr, place: int) -> Expr:
            return cast(read(rois, [add(mul(roi, const(5)), const(place))]), work)

        def region(roi: Expr) -> Stmt:
            batch = maximum(minimum(cast(number(roi, 0), I64), const(x_type.shape[0] - 1)), const(0))
            found: list[Stmt] = [put(image, batch)]
            scale = const(attrs["spatial_scale"], work)
            for axis in range(2):
                low, high = (
                    cast(_away_expr(number(roi, place) * scale), I64) for place in (2 - axis, 4 - axis)
                )
                size = maximum(add(sub(high, low), const(1)), const(1))
                step = cast(size, work) / const(pooled[axis], work)
                found += [put(lows[axis], low), put(steps[axis], step)]
            return seq(*found)

        def edge(axis: int, name: str, place: Expr) -> Expr:
            offset = cast(call(name, cast(place, work) * get(steps[axis])), I64)
            moved = add(get(lows[axis]), offset)
            return maximum(minimum(moved, const(x_type.shape[2 + axis])), const(0))

        def cell_of(roi: Expr, i: Sequence[Expr]) -> Stmt:
            limits: list[Stmt] = []
            for axis in range(2):
                limits.append(put(froms[axis], edge(axis, "floor", i[1 + axis])))
                limits.append(put(ends[axis], edge(axis, "ceil", add(i[1 + axis], const(1)))))
            some = logical_and(*(get(a) < get(b) for a, b in zip(froms, ends, strict=True)))

            def pixel(row: Expr, column: Expr) -> Stmt:
                place = flat(x_type.shape, [get(image), i[0], row, column])
                return put(best, maximum(get(best), cast(read(x, [place]), work)))

            def rows(h: Expr) -> Stmt:
                row = add(h, get(froms[0]))
                width = sub(get(ends[1]), get(froms[1]))
                return loop("w", width, lambda w: pixel(row, add(w, get(froms[1]))))

            inner = loop("h", sub(get(ends[0]), get(froms[0])), rows)
            start = put(best, select(some, const(-inf, work), const(0, work)))
            write = store(results[0], flat(out.shape, [roi, *i]), cast(get(best), out.dtype))
            return seq(*limits, start, If(some, inner), write)

        def one(roi: Expr) -> Stmt:
            inner = seq(region(roi), nest("i", out.shape[1:], lambda i: cell_of(roi, i)))
            return with_cells([image, best, *lows, *steps, *froms, *ends], inner)

        return loop("roi", out.shape[0], one, parallel=True)

    return loop_program("max_roi_pool", types, outputs, body)


operator(
    "MaxRoiPool",
    "each region of interest cut into a grid of cells, of each the maximum; 0 where a cell covers no pixel",
    [Operand("x", FLOATS), Operand("rois", FLOATS)],
    [Operand("y", FLOATS)],
    _max_infer,
    _max_evaluate,
    {"pooled_shape": Attr("ints", required=True), "spatial_scale": Attr("float", 1.0)},
    loops=_max_loops,
)
