"""TopK: the k best elements of each row, best first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import BOOL, I64
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, call, const, logical_and, minimum, mul, read, sub
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, While, seq
from tilewright.ops.declaration import NUMBERS, operator, required
from tilewright.ops.looping import (
    PARALLEL_ELEMENTS,
    around,
    cell,
    get,
    loop,
    loop_program,
    put,
    store,
    with_cells,
)
from tilewright.ops.operator import Attr, Attrs, Operand
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, axis, k = required(types, 0), attrs["axis"], attrs["k"]
    if not 0 <= axis < x.rank:
        raise VerifyError(f"TopK: axis {axis} does not fit a tensor of rank {x.rank}")
    if not 0 <= k <= x.shape[axis]:
        raise VerifyError(f"TopK: k = {k} of the {x.shape[axis]} elements of axis {axis}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return (TensorType(x.dtype, shape), TensorType(I64, shape))


def _evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, axis, k = required(arrays, 0), attrs["axis"], attrs["k"]
    if attrs["largest"]:  # a stable order of the reversed row, so that equal elements keep theirs
        backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backwards, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    indices = np.take(order, np.arange(k), axis=axis).astype(np.int64)
    return (np.take_along_axis(x, indices, axis), indices)


def _either(a: Expr, b: Expr) -> Expr:
    return binary("or", a, b)


def _above(a: Expr, b: Expr) -> Expr:
    """a > b, where NaN is larger than all numbers."""
    greater = binary("gt", a, b)
    if not a.dtype.is_float:
        return greater
    number = binary("eq", call("isnan", b, dtype=BOOL), const(False, BOOL))
    return _either(greater, logical_and(call("isnan", a, dtype=BOOL), number))


class _Heap:
    """The k best elements seen of one row, the worst of them first; it lives in the results."""

    def __init__(self, values: Buffer, indices: Buffer, row: Expr, step: int, largest: bool) -> None:
        self.values, self.indices = values, indices
        self.row, self.step, self.largest = row, step, largest
        self.at, self.child, self.more = cell("at"), cell("child"), cell("more", BOOL)
        self.value, self.index = cell("value", values.dtype), cell("index")

    def place(self, position: Expr) -> Expr:
        return add(self.row, mul(position, const(self.step)))

    def better(self, a: Expr, b: Expr) -> Expr:
        return _above(a, b) if self.largest else _above(b, a)

    def worse(self, p: Expr, q: Expr) -> Expr:
        """Whether element p comes after element q; among equal ones the later index does."""
        a, b = read(self.values, [self.place(p)]), read(self.values, [self.place(q)])
        i, j = read(self.indices, [self.place(p)]), read(self.indices, [self.place(q)])
        neither = binary("eq", self.better(a, b), const(False, BOOL))
        return _either(self.better(b, a), logical_and(neither, binary("gt", i, j)))

    def write(self, position: Expr, value: Expr, index: Expr) -> Stmt:
        place = self.place(position)
        return seq(store(self.values, place, value), store(self.indices, place, index))

    def swap(self, p: Expr, q: Expr) -> Stmt:
        first, second = self.place(p), self.place(q)
        return seq(
            put(self.value, read(self.values, [first])),
            put(self.index, read(self.indices, [first])),
            self.write(p, read(self.values, [second]), read(self.indices, [second])),
            self.write(q, get(self.value), get(self.index)),
        )

    def sift(self, start: Expr, end: Expr) -> Stmt:
        """Restore the order below `start` among the first `end` elements."""
        at, child = get(self.at), get(self.child)
        left = add(mul(at, const(2)), const(1))
        right = minimum(add(child, const(1)), sub(end, const(1)))  # itself where it has no sibling
        choose = If(self.worse(right, child), put(self.child, right))
        down = If(
            self.worse(child, at), seq(self.swap(child, at), put(self.at, child)), put(self.more, False)
        )
        turn = seq(put(self.child, left), choose, down)
        return seq(
            put(self.at, start),
            put(self.more, True),
            While(logical_and(get(self.more), binary("lt", left, end)), turn),
        )


def _loops(types: Types, attrs: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    """Each row by a heap: O(n log k). It ends as a heap sort, which leaves the best element first."""
    x_type, k = required(types, 0), attrs["k"]
    before, extent, behind = around(x_type.shape, attrs["axis"])

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x = required(inputs, 0)

        def one(o: Expr, i: Expr) -> Stmt:
            row = add(mul(o, const(k * behind)), i)
            heap = _Heap(results[0], results[1], row, behind, attrs["largest"])

            def element(n: Expr) -> Expr:
                return read(x, [add(mul(add(mul(o, const(extent)), n), const(behind)), i)])

            def challenge(n: Expr) -> Stmt:
                number = add(n, const(k))
                root = read(results[0], [heap.place(const(0))])
                enter = seq(heap.write(const(0), element(number), number), heap.sift(const(0), const(k)))
                return If(heap.better(element(number), root), enter)

            def settle(s: Expr) -> Stmt:
                last = sub(const(k - 1), s)
                return seq(heap.swap(const(0), last), heap.sift(const(0), last))

            program = seq(
                loop("p", k, lambda p: heap.write(p, element(p), p)),
                loop("h", k // 2, lambda h: heap.sift(sub(const(k // 2 - 1), h), const(k))),
                loop("n", extent - k, challenge),
                loop("s", k - 1, settle),
            )
            return with_cells([heap.at, heap.child, heap.more, heap.value, heap.index], program)

        shared = x.size >= PARALLEL_ELEMENTS
        return loop(
            "o",
            before,
            lambda o: loop("i", behind, lambda i: one(o, i), shared and before == 1),
            shared and before > 1,
        )

    if not k:
        return loop_program("topk", types, outputs, lambda *_: seq())
    return loop_program("topk", types, outputs, body)


operator(
    "TopK",
    "the k largest (or smallest) elements along an axis, best first, and their indices",
    [Operand("x", NUMBERS)],
    [Operand("values", NUMBERS), Operand("indices", ("i64",))],
    _infer,
    _evaluate,
    {"k": Attr("int", required=True), "axis": Attr("int", required=True), "largest": Attr("bool", True)},
    loops=_loops,
)
