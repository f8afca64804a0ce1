"""RoiAlign: regions of interest sampled on grids. How many samples a region has depends on the data."""

from __future__ import annotations

from collections.abc import Sequence

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
)
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, seq
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.looping import cell, flat, get, loop, loop_program, nest, put, store, with_cells
from tilewright.ops.operator import REGISTRY, Attr, Attrs, Operand
from tilewright.ops.reading import accumulator
from tilewright.types import TensorType

Types = Sequence[TensorType | None]


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
    with np.errstate(invalid="ignore"):
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


class _Axis:
    """One axis of a region in a loop program: its scalars, and the statements that fill them."""

    def __init__(self, number: int, extent: int, cells: int, work: DType, attrs: Attrs) -> None:
        self.extent, self.cells, self.work, self.attrs = extent, cells, work, attrs
        self.start, self.step, self.share = (
            cell(f"{name}{number}", work) for name in ("start", "step", "share")
        )
        self.count, self.low, self.high = (cell(f"{name}{number}") for name in ("count", "low", "high"))

    @property
    def scalars(self) -> list[Buffer]:
        return [self.start, self.step, self.share, self.count, self.low, self.high]

    def number(self, value: float) -> Expr:
        return const(value, self.work)

    def region(self, low: Expr, high: Expr) -> Stmt:
        """Where the region starts, how large its cells are, and how many samples each has."""
        half, ratio = self.attrs["half_pixel"], self.attrs["sampling_ratio"]
        low, high = (cast(e, self.work) * self.number(self.attrs["spatial_scale"]) for e in (low, high))
        size = high - low if half else maximum(high - low, self.number(1))
        step = size / self.number(self.cells)
        return seq(
            put(self.start, low - self.number(0.5) if half else low),
            put(self.step, step),
            put(self.count, const(ratio) if ratio else cast(call("ceil", step), I64)),
        )

    def coordinate(self, place: Expr, sample: Expr) -> Expr:
        """Where a sample of the cell at `place` lies."""
        inner = (cast(sample, self.work) + self.number(0.5)) * get(self.step)
        start = get(self.start) + cast(place, self.work) * get(self.step)
        return start + inner / cast(get(self.count), self.work)

    def inside(self, at: Expr) -> Expr:
        return logical_and(binary("ge", at, self.number(-1)), binary("le", at, self.number(self.extent)))

    def corners(self, at: Expr) -> Stmt:
        """The two pixels around a coordinate that is inside, and the share of the upper one."""
        last = const(self.extent - 1)
        positive = maximum(at, self.number(0))
        beyond = binary("ge", get(self.low), last)
        part = positive - cast(get(self.low), self.work)
        return seq(
            put(self.low, minimum(cast(positive, I64), last)),
            put(self.high, minimum(add(get(self.low), const(1)), last)),
            put(self.share, select(beyond, self.number(0), part)),
        )

    def pixels(self) -> list[tuple[Expr, Expr]]:
        """Both pixels with their weights."""
        share = get(self.share)
        return [(get(self.low), self.number(1) - share), (get(self.high), share)]


class _Pooling:
    """The loop program over regions, channels and cells, written for one node."""

    def __init__(self, x: TensorType, out: TensorType, attrs: Attrs, buffers: Sequence[Buffer]) -> None:
        self.shape, self.out, self.average = x.shape, out, attrs["mode"] == "avg"
        self.x, self.rois, self.batch, self.y = buffers
        self.work = accumulator(x.dtype)
        pairs = zip(x.shape[2:], out.shape[2:], strict=True)
        self.axes = [_Axis(i, n, cells, self.work, attrs) for i, (n, cells) in enumerate(pairs)]
        self.image, self.seen, self.total = cell("image"), cell("seen"), cell("total", self.work)

    def regions(self) -> Stmt:
        scalars = [self.image, self.seen, self.total, *(s for axis in self.axes for s in axis.scalars)]

        def one(roi: Expr) -> Stmt:
            cells = nest("i", self.out.shape[1:], lambda i: self.pooled(roi, i))
            return with_cells(scalars, seq(self.region(roi), cells))

        return loop("roi", self.out.shape[0], one, parallel=True)

    def region(self, roi: Expr) -> Stmt:
        """A region is x1 y1 x2 y2; an image that does not exist must not become a foreign read."""

        def corner(place: int) -> Expr:
            return read(self.rois, [add(mul(roi, const(4)), const(place))])

        wanted = cast(read(self.batch, [roi]), I64)
        image = maximum(minimum(wanted, const(self.shape[0] - 1)), const(0))
        rows, columns = self.axes
        return seq(
            rows.region(corner(1), corner(3)), columns.region(corner(0), corner(2)), put(self.image, image)
        )

    def pooled(self, roi: Expr, i: Sequence[Expr]) -> Stmt:
        """One cell of one channel: all samples, then the mean or the maximum."""
        channel, *places = i
        rows, columns = self.axes

        def row(iy: Expr) -> Stmt:
            return loop("ix", get(columns.count), lambda ix: self.sample(channel, places, [iy, ix]))

        samples = maximum(mul(get(rows.count), get(columns.count)), const(1))
        total = get(self.total)
        value = total / cast(samples, self.work) if self.average else total
        return seq(
            put(self.total, const(0, self.work)),
            put(self.seen, const(0)),
            loop("iy", get(rows.count), row),
            store(self.y, flat(self.out.shape, [roi, *i]), cast(value, self.out.dtype)),
        )

    def sample(self, channel: Expr, places: Sequence[Expr], numbers: Sequence[Expr]) -> Stmt:
        """Four weighted pixels; a sample outside the image counts as zero."""
        rows, columns = self.axes
        at = [axis.coordinate(p, n) for axis, p, n in zip(self.axes, places, numbers, strict=True)]
        parts = [
            mul(mul(down, across), self.pixel(channel, row, column))
            for row, down in rows.pixels()
            for column, across in columns.pixels()
        ]
        value = parts[0]
        for part in parts[1:]:
            value = value + part if self.average else maximum(value, part)
        inside = logical_and(*(axis.inside(a) for axis, a in zip(self.axes, at, strict=True)))
        found = seq(*(axis.corners(a) for axis, a in zip(self.axes, at, strict=True)), self.collect(value))
        return If(inside, found, self.collect(const(0, self.work)))

    def pixel(self, channel: Expr, row: Expr, column: Expr) -> Expr:
        return cast(read(self.x, [flat(self.shape, [get(self.image), channel, row, column])]), self.work)

    def collect(self, value: Expr) -> Stmt:
        total = get(self.total)
        if self.average:
            return put(self.total, total + value)
        first = binary("eq", get(self.seen), const(0))
        return seq(put(self.total, select(first, value, maximum(total, value))), put(self.seen, const(1)))


def _align_loops(types: Types, given: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    attrs = {key: attr.default for key, attr in REGISTRY["RoiAlign"].attrs.items()} | dict(given)

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        buffers = [*(required(inputs, i) for i in range(3)), results[0]]
        return _Pooling(required(types, 0), outputs[0], attrs, buffers).regions()

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
