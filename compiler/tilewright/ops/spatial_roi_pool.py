"""MaxRoiPool: maxima over the cells of regions of interest, whose size depends on the data."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from tilewright.dtypes import I64, DType
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


@np.errstate(invalid="ignore", over="ignore")  # regions without a meaning
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


class _Axis:
    """One axis of a region in a loop program: its scalars, and the statements that fill them."""

    def __init__(self, number: int, extent: int, cells: int, work: DType, scale: float) -> None:
        self.extent, self.cells, self.work, self.scale = extent, cells, work, scale
        self.low, self.first, self.end = (cell(f"{name}{number}") for name in ("low", "first", "end"))
        self.step = cell(f"step{number}", work)

    @property
    def scalars(self) -> list[Buffer]:
        return [self.low, self.first, self.end, self.step]

    @property
    def covered(self) -> Expr:
        """How many pixels the cell covers."""
        return sub(get(self.end), get(self.first))

    def region(self, low: Expr, high: Expr) -> Stmt:
        """Where the region starts, and how large its cells are."""
        scale = const(self.scale, self.work)
        start, stop = (cast(_away_expr(cast(e, self.work) * scale), I64) for e in (low, high))
        size = maximum(add(sub(stop, start), const(1)), const(1))
        return seq(put(self.low, start), put(self.step, cast(size, self.work) / const(self.cells, self.work)))

    def bounds(self, place: Expr) -> Stmt:
        """The pixels of a cell that lie in the image."""
        return seq(
            put(self.first, self._edge("floor", place)),
            put(self.end, self._edge("ceil", add(place, const(1)))),
        )

    def _edge(self, rounding: str, place: Expr) -> Expr:
        offset = cast(call(rounding, cast(place, self.work) * get(self.step)), I64)
        return maximum(minimum(add(get(self.low), offset), const(self.extent)), const(0))


def _max_loops(types: Types, given: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    """For every region, channel and cell: the maximum of the pixels it covers, 0 when it covers none."""
    attrs = {key: attr.default for key, attr in REGISTRY["MaxRoiPool"].attrs.items()} | dict(given)
    x_type, out = required(types, 0), outputs[0]
    work = accumulator(x_type.dtype)

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x, rois = required(inputs, 0), required(inputs, 1)
        pairs = zip(x_type.shape[2:], out.shape[2:], strict=True)
        axes = [_Axis(i, n, cells, work, attrs["spatial_scale"]) for i, (n, cells) in enumerate(pairs)]
        rows, columns = axes
        image, best = cell("image"), cell("best", work)

        def region(roi: Expr) -> Stmt:
            """A region is its image, x1 y1 x2 y2; an image that does not exist must not be read."""
            numbers = [read(rois, [add(mul(roi, const(5)), const(place))]) for place in range(5)]
            wanted = minimum(cast(numbers[0], I64), const(x_type.shape[0] - 1))
            return seq(
                put(image, maximum(wanted, const(0))),
                rows.region(numbers[2], numbers[4]),
                columns.region(numbers[1], numbers[3]),
            )

        def pooled(roi: Expr, i: Sequence[Expr]) -> Stmt:
            def pixel(h: Expr, w: Expr) -> Stmt:
                place = [get(image), i[0], add(h, get(rows.first)), add(w, get(columns.first))]
                return put(best, maximum(get(best), cast(read(x, [flat(x_type.shape, place)]), work)))

            pixels = loop("h", rows.covered, lambda h: loop("w", columns.covered, lambda w: pixel(h, w)))
            some = logical_and(*(get(axis.first) < get(axis.end) for axis in axes))
            return seq(
                *(axis.bounds(place) for axis, place in zip(axes, i[1:], strict=True)),
                put(best, select(some, const(-inf, work), const(0, work))),
                If(some, pixels),
                store(results[0], flat(out.shape, [roi, *i]), cast(get(best), out.dtype)),
            )

        def one(roi: Expr) -> Stmt:
            scalars = [image, best, *(s for axis in axes for s in axis.scalars)]
            return with_cells(scalars, seq(region(roi), nest("i", out.shape[1:], lambda i: pooled(roi, i))))

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
