"""NonMaxSuppression: of boxes that overlap, the one with the highest score stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import BOOL, F32, I64, DType
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, cast, const, logical_and, maximum, minimum, mul, read, sub
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, While, seq
from tilewright.ops.declaration import operator, required
from tilewright.ops.looping import cell, flat, get, loop, loop_program, nest, put, store, with_cells
from tilewright.ops.operator import Attr, Attrs, Operand
from tilewright.ops.selection import COUNT, cleared, padded
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    boxes, scores = required(types, 0), required(types, 1)
    if boxes.rank != 3 or boxes.shape[2] != 4 or scores.rank != 3:
        raise VerifyError(
            f"NonMaxSuppression: boxes {boxes} and scores {scores}, expected [B,N,4] and [B,C,N]"
        )
    batch, classes, count = scores.shape
    if boxes.shape[:2] != (batch, count):
        raise VerifyError(f"NonMaxSuppression: boxes {boxes} do not fit scores {scores}")
    for index in (2, 3, 4):
        type = types[index]
        if type is not None and type.size != 1:
            raise VerifyError(f"NonMaxSuppression: operand {index} is {type}, expected one number")
    bound = batch * classes * max(0, min(count, attrs["limit"]))
    return (TensorType(I64, (bound, 3)), COUNT, TensorType(BOOL, (count,)))


def _numbers(arrays: Arrays) -> list[float | None]:
    return [None if a is None else a.reshape(-1)[0].item() for a in arrays]


def _evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    boxes, scores = required(arrays, 0), required(arrays, 1)
    most, overlap, least = _numbers([*arrays[2:], *(None for _ in range(5 - len(arrays)))])
    batch, classes, count = scores.shape
    limit = max(0, min(count, attrs["limit"]))
    found: list[tuple[int, int, int]] = []
    for b in range(batch):
        corners = _corner_arrays(boxes[b], attrs["center"])
        for c in range(classes):
            row = scores[b, c]
            alive = np.ones(count, bool) if least is None else row > least
            quota = min(limit, int(most or 0))
            while quota > 0 and alive.any():
                best = int(np.flatnonzero(alive)[np.argmax(row[alive])])
                found.append((b, c, best))
                alive[best] = False
                alive &= ~_overlaps(corners, best, overlap or 0.0)
                quota -= 1
    alive = np.zeros(count, bool)
    places = np.array(found, np.int64).reshape(-1, 3)
    return padded(places, (batch * classes * limit, 3)), np.array(len(found), np.int64), alive


def _corner_arrays(boxes: np.ndarray, center: bool) -> tuple[np.ndarray, ...]:
    """Smallest and largest coordinate along either axis: four rows."""
    a, b, c, d = boxes.T
    if center:
        return a - c / 2, a + c / 2, b - d / 2, b + d / 2
    return np.minimum(a, c), np.maximum(a, c), np.minimum(b, d), np.maximum(b, d)


def _overlaps(corners: tuple[np.ndarray, ...], best: int, limit: float) -> np.ndarray:
    """Whether the boxes share more than `limit` of their union with one of them."""
    low, high, left, right = corners
    height = np.minimum(high, high[best]) - np.maximum(low, low[best])
    width = np.minimum(right, right[best]) - np.maximum(left, left[best])
    shared = height * width
    areas = (high - low) * (right - left)
    union = areas + areas[best] - shared
    proper = (height > 0) & (width > 0) & (areas > 0) & (areas[best] > 0) & (union > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(proper & (shared / union > limit))


class _Boxes:
    """The boxes of one element of the batch, as expressions."""

    def __init__(self, boxes: Buffer, b: Expr, count: int, center: bool) -> None:
        self.boxes, self.row, self.center = boxes, mul(b, const(count)), center

    def corners(self, n: Expr) -> tuple[Expr, ...]:
        """As `_corner_arrays`."""
        start = mul(add(self.row, n), const(4))
        a, b, c, d = (read(self.boxes, [add(start, const(k))]) for k in range(4))
        if not self.center:
            return minimum(a, c), maximum(a, c), minimum(b, d), maximum(b, d)
        height, width = (mul(size, const(0.5, size.dtype)) for size in (c, d))
        return sub(a, height), add(a, height), sub(b, width), add(b, width)

    def overlap(self, m: Expr, n: Expr, limit: Expr) -> Expr:
        """Whether two boxes share more than `limit` of their union."""
        low1, high1, left1, right1 = self.corners(m)
        low2, high2, left2, right2 = self.corners(n)
        height = sub(minimum(high1, high2), maximum(low1, low2))
        width = sub(minimum(right1, right2), maximum(left1, left2))
        shared = mul(height, width)
        first, second = mul(sub(high1, low1), sub(right1, left1)), mul(sub(high2, low2), sub(right2, left2))
        union = sub(add(first, second), shared)
        positive = [binary("gt", e, const(0, e.dtype)) for e in (height, width, first, second, union)]
        return logical_and(*positive, binary("gt", binary("div", shared, union), limit))


def _loops(types: Types, attrs: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    scores_type = required(types, 1)
    batch, classes, count = scores_type.shape
    limit = max(0, min(count, attrs["limit"]))

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        boxes, scores = required(inputs, 0), required(inputs, 1)
        most, overlap, least = ([*inputs, None, None, None])[2:5]
        selected, total, alive = results
        found, taken, best, score = cell("found"), cell("taken"), cell("best"), cell("score", scores.dtype)
        more = cell("more", BOOL)

        def one(at: Sequence[Expr]) -> Stmt:
            """One class of one element of the batch."""
            b, c = at
            rows = _Boxes(boxes, b, count, attrs["center"])

            def value(n: Expr) -> Expr:
                return read(scores, [flat(scores_type.shape, (b, c, n))])

            def enter(n: Expr) -> Stmt:
                kept = const(True, BOOL) if least is None else binary("gt", value(n), read(least, [0]))
                return store(alive, n, kept)

            def look(n: Expr) -> Stmt:
                better = binary("or", binary("lt", get(best), const(0)), binary("gt", value(n), get(score)))
                return If(logical_and(read(alive, [n]), better), seq(put(best, n), put(score, value(n))))

            def suppress(n: Expr) -> Stmt:
                hit = rows.overlap(get(best), n, _number(overlap, scores.dtype))
                return If(logical_and(read(alive, [n]), hit), store(alive, n, const(False, BOOL)))

            take = seq(
                *(store(selected, add(mul(get(found), const(3)), const(k)), e) for k, e in enumerate((b, c))),
                store(selected, add(mul(get(found), const(3)), const(2)), get(best)),
                store(alive, get(best), const(False, BOOL)),
                loop("s", count, suppress),
                put(found, add(get(found), const(1))),
                put(taken, add(get(taken), const(1))),
            )
            turn = seq(
                put(best, -1),
                loop("l", count, look),
                If(binary("lt", get(best), const(0)), put(more, False), take),
            )
            quota = minimum(_number(most, I64), const(limit))
            going = logical_and(get(more), binary("lt", get(taken), quota))
            return seq(loop("e", count, enter), put(taken, 0), put(more, True), While(going, turn))

        program = seq(
            cleared(selected),
            put(found, 0),
            nest("c", (batch, classes), one),
            store(total, const(0), get(found)),
            cleared(alive),
        )
        return with_cells([found, taken, best, score, more], program)

    if not outputs[0].size:
        return loop_program("suppression", types, outputs, _nothing)
    return loop_program("suppression", types, outputs, body)


def _nothing(_: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
    return seq(*(cleared(target) for target in results))


def _number(buffer: Buffer | None, dtype: DType) -> Expr:
    return const(0, dtype) if buffer is None else cast(read(buffer, [0]), dtype)


operator(
    "NonMaxSuppression",
    "of boxes [B,N,4] that overlap, those with the highest scores [B,C,N]: (batch, class, box) in rows, how "
    "many, and scratch. Boxes are corners of a diagonal, or with `center` their middle and size",
    [
        Operand("boxes", (F32.name, "f64")),
        Operand("scores", (F32.name, "f64")),
        Operand("max_per_class", (I64.name,), optional=True),
        Operand("iou_threshold", (F32.name, "f64"), optional=True),
        Operand("score_threshold", (F32.name, "f64"), optional=True),
    ],
    [Operand("selected"), Operand("count"), Operand("alive")],
    _infer,
    _evaluate,
    {"limit": Attr("int", required=True), "center": Attr("bool", False)},
    loops=_loops,
)
