"""NGramCount: how often given n-grams occur in rows of numbers, by binary search in a sorted table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, const, floordiv, logical_and, mul, read
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, While, seq
from tilewright.ops.declaration import operator, required
from tilewright.ops.looping import (
    PARALLEL_ELEMENTS,
    cell,
    get,
    loop,
    loop_program,
    put,
    store,
    with_cells,
)
from tilewright.ops.operator import Attr, Attrs, Operand
from tilewright.ops.selection import cleared
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, grams, columns = (required(types, index) for index in range(3))
    if x.rank != 2 or grams.rank != 2 or columns.shape != grams.shape[:1] or not grams.shape[1]:
        raise VerifyError(
            f"NGramCount: rows {x}, n-grams {grams} and columns {columns}, expected [R,C], [G,n] and [G]"
        )
    if attrs["distance"] < 1 or attrs["size"] < 1:
        raise VerifyError(
            f"NGramCount: distance {attrs['distance']} and size {attrs['size']} must be positive"
        )
    return (TensorType(I64, (x.shape[0], attrs["size"])),)


def _evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, grams, columns = (required(arrays, index) for index in range(3))
    length = grams.shape[1]
    column = dict(zip(map(tuple, grams.tolist()), columns.tolist(), strict=True))
    counts = np.zeros((x.shape[0], attrs["size"]), np.int64)
    for distance in range(1, attrs["distance"] + 1):
        for row, numbers in enumerate(x.tolist()):
            for start in range(len(numbers) - distance * (length - 1)):
                found = column.get(tuple(numbers[start + distance * k] for k in range(length)))
                if found is not None:
                    counts[row, found] += 1
    return (counts,)


class _Search:
    """Finds the n-gram that begins at an element of a row."""

    def __init__(self, x: Buffer, grams: Buffer, length: int) -> None:
        self.x, self.grams, self.length = x, grams, length
        self.low, self.high, self.middle = cell("low"), cell("high"), cell("middle")
        self.step, self.verdict = cell("step"), cell("verdict")

    def cells(self) -> list[Buffer]:
        return [self.low, self.high, self.middle, self.step, self.verdict]

    def compare(self, start: Expr, distance: Expr) -> Stmt:
        """verdict = -1, 0 or 1, as the middle n-gram comes before the row's, equals it, or comes after it."""
        step = get(self.step)
        theirs = read(self.grams, [add(mul(get(self.middle), const(self.length)), step)])
        ours = read(self.x, [add(start, mul(step, distance))])
        less, more = binary("lt", theirs, ours), binary("gt", theirs, ours)
        turn = seq(
            If(less, put(self.verdict, -1), If(more, put(self.verdict, 1))),
            put(self.step, add(step, const(1))),
        )
        pending = logical_and(
            binary("lt", step, const(self.length)), binary("eq", get(self.verdict), const(0))
        )
        return seq(put(self.step, 0), put(self.verdict, 0), While(pending, turn))

    def run(self, start: Expr, distance: Expr, count: int, hit: Stmt) -> Stmt:
        """`hit` runs when an n-gram is the row's; its place is in `middle`."""
        middle, verdict = get(self.middle), get(self.verdict)
        found = seq(hit, put(self.low, get(self.high)))  # which ends the search
        upper = If(binary("gt", verdict, const(0)), put(self.high, middle), found)
        turn = seq(
            put(self.middle, floordiv(add(get(self.low), get(self.high)), const(2))),
            self.compare(start, distance),
            If(binary("lt", verdict, const(0)), put(self.low, add(middle, const(1))), upper),
        )
        going = binary("lt", get(self.low), get(self.high))
        return seq(put(self.low, 0), put(self.high, count), While(going, turn))


def _loops(types: Types, attrs: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    (rows, extent), (count, length) = required(types, 0).shape, required(types, 1).shape
    size, farthest = attrs["size"], attrs["distance"]

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x, grams, columns = (required(inputs, index) for index in range(3))
        counts = results[0]

        def one(row: Expr) -> Stmt:
            search = _Search(x, grams, length)
            place = add(mul(row, const(size)), read(columns, [get(search.middle)]))
            hit = store(counts, place, add(read(counts, [place]), const(1)))

            def begin(distance: Expr, start: Expr) -> Stmt:
                first = add(mul(row, const(extent)), start)
                last = add(start, mul(distance, const(length - 1)))
                return If(binary("lt", last, const(extent)), search.run(first, distance, count, hit))

            scan = loop("d", farthest, lambda d: loop("i", extent, lambda i: begin(add(d, const(1)), i)))
            return with_cells(search.cells(), scan)

        shared = rows > 1 and rows * extent * farthest >= PARALLEL_ELEMENTS
        return seq(cleared(counts), loop("r", rows, one, shared))

    return loop_program("ngrams", types, outputs, body)


operator(
    "NGramCount",
    "how often each of the n-grams, sorted and distinct, occurs in each row, counted in its column; the "
    "numbers of an n-gram stand 1 to `distance` apart",
    [Operand("x", (I64.name,)), Operand("grams", (I64.name,)), Operand("columns", (I64.name,))],
    [Operand("counts", (I64.name,))],
    _infer,
    _evaluate,
    {"distance": Attr("int", 1), "size": Attr("int", required=True)},
    loops=_loops,
)
