"""Unique: the distinct slices along an axis, by a heap sort of their places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.dtypes import BOOL, I64
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, call, const, floordiv, logical_and, mod, mul, read, sub
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, While, seq
from tilewright.ops.declaration import operator, required
from tilewright.ops.looping import around, cell, get, loop, loop_program, put, store, with_cells
from tilewright.ops.operator import Attr, Attrs, Operand
from tilewright.ops.selection import COUNT, cleared, padded, slice_copy
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, axis = required(types, 0), attrs["axis"]
    if not 0 <= axis < x.rank:
        raise VerifyError(f"Unique: axis {axis} does not fit a tensor of rank {x.rank}")
    places = TensorType(I64, (x.shape[axis],))
    return (TensorType(x.dtype, x.shape), places, places, places, COUNT, places)


def _evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, axis = required(arrays, 0), attrs["axis"]
    extent = x.shape[axis]
    rows = np.moveaxis(x, axis, 0).reshape(extent, prod(x.shape[:axis]) * prod(x.shape[axis + 1 :]))
    exact = rows if x.dtype.kind in "iub" else rows.astype(np.float64)
    keys = [[(v != v, 0 if v != v else v) for v in row] for row in exact.tolist()]  # NaN last
    order = sorted(range(extent), key=keys.__getitem__)
    heads: list[int] = []  # of each place, the first place with the same slice
    for at, place in enumerate(order):
        same = at > 0 and keys[order[at - 1]] == keys[place]
        heads.append(heads[-1] if same else place)
    head_of = dict(zip(order, heads, strict=True))
    groups = list(dict.fromkeys(heads)) if attrs["sorted"] else [n for n in range(extent) if head_of[n] == n]
    number = {head: group for group, head in enumerate(groups)}
    inverse = np.array([number[head_of[n]] for n in range(extent)], np.int64)
    counts = np.bincount(inverse, minlength=extent).astype(np.int64)
    first = np.array(groups, np.int64)
    return (
        padded(np.take(x, first, axis=axis), x.shape),
        padded(first, (extent,)),
        inverse,
        counts,
        np.array(len(groups), np.int64),
        np.array(order, np.int64),
    )


class _Sorter:
    """Orders places by their slices, equal ones by place; NaN comes last and equals NaN."""

    def __init__(self, x: Buffer, order: Buffer, sizes: tuple[int, int, int]) -> None:
        self.x, self.order = x, order
        self.before, self.extent, self.behind = sizes
        self.a, self.b, self.verdict, self.step = cell("a"), cell("b"), cell("verdict"), cell("step")
        self.at, self.child, self.more = cell("at"), cell("child"), cell("more", BOOL)

    def cells(self) -> list[Buffer]:
        return [self.a, self.b, self.verdict, self.step, self.at, self.child, self.more]

    def element(self, place: Expr, step: Expr) -> Expr:
        outer, inner = floordiv(step, const(self.behind)), mod(step, const(self.behind))
        row = add(mul(outer, const(self.extent)), place)
        return read(self.x, [add(mul(row, const(self.behind)), inner)])

    def compare(self, a: Expr, b: Expr) -> Stmt:
        """verdict = -1, 0 or 1, as slice a comes before b, equals it, or comes after it."""
        step, verdict = get(self.step), get(self.verdict)
        u, v = self.element(get(self.a), step), self.element(get(self.b), step)
        turn = seq(
            If(_below(u, v), put(self.verdict, -1), If(_below(v, u), put(self.verdict, 1))),
            put(self.step, add(step, const(1))),
        )
        pending = logical_and(
            binary("lt", step, const(self.before * self.behind)), binary("eq", verdict, const(0))
        )
        start = (put(self.a, a), put(self.b, b), put(self.verdict, 0), put(self.step, 0))
        return seq(*start, While(pending, turn))

    def after(self) -> Expr:
        """Whether the slices just compared stand in the wrong order."""
        tie = logical_and(binary("eq", get(self.verdict), const(0)), binary("gt", get(self.a), get(self.b)))
        return binary("or", binary("gt", get(self.verdict), const(0)), tie)

    def place(self, position: Expr) -> Expr:
        return read(self.order, [position])

    def swap(self, p: Expr, q: Expr) -> Stmt:
        return seq(
            put(self.a, self.place(p)),
            put(self.b, self.place(q)),
            store(self.order, p, get(self.b)),
            store(self.order, q, get(self.a)),
        )

    def sift(self, start: Expr, end: Expr) -> Stmt:
        """Restore the heap below `start` among the first `end` places: the last in order on top."""
        at, child = get(self.at), get(self.child)
        right = add(child, const(1))
        choose = seq(
            self.compare(self.place(right), self.place(child)),
            If(self.after(), put(self.child, right)),
        )
        descend = seq(self.swap(child, at), put(self.at, child))
        turn = seq(
            put(self.child, add(mul(at, const(2)), const(1))),
            If(binary("lt", right, end), choose),
            self.compare(self.place(child), self.place(at)),
            If(self.after(), descend, put(self.more, False)),
        )
        below = binary("lt", add(mul(at, const(2)), const(1)), end)
        return seq(put(self.at, start), put(self.more, True), While(logical_and(get(self.more), below), turn))

    def sort(self) -> Stmt:
        n = self.extent
        return seq(
            loop("p", n, lambda p: store(self.order, p, p)),
            loop("h", n // 2, lambda h: self.sift(sub(const(n // 2 - 1), h), const(n))),
            loop("s", max(n - 1, 0), self._settle),
        )

    def _settle(self, s: Expr) -> Stmt:
        last = sub(const(self.extent - 1), s)
        return seq(self.swap(const(0), last), self.sift(const(0), last))


def _below(u: Expr, v: Expr) -> Expr:
    less = binary("lt", u, v)
    if not u.dtype.is_float:
        return less
    number = binary("eq", call("isnan", u, dtype=BOOL), const(False, BOOL))
    return binary("or", less, logical_and(number, call("isnan", v, dtype=BOOL)))


def _loops(types: Types, attrs: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    before, extent, behind = sizes = around(required(types, 0).shape, attrs["axis"])

    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        x, (y, indices, inverse, counts, count, order) = required(inputs, 0), results
        sorter, groups, head = _Sorter(x, order, sizes), cell("groups"), cell("head")
        total = get(groups)
        group = sub(total, const(1))

        def begin(place: Expr) -> Stmt:
            """A new group, whose first place this is."""
            return seq(
                store(indices, total, place),
                store(counts, total, const(0)),
                put(groups, add(total, const(1))),
            )

        def count_in(at: Expr, place: Expr) -> Stmt:
            return seq(store(inverse, place, at), store(counts, at, add(read(counts, [at]), const(1))))

        def walk(k: Expr) -> Stmt:
            """Sorted: groups in the order of the slices."""
            place = sorter.place(k)
            return seq(_starts(sorter, k), If(get(sorter.more), begin(place)), count_in(group, place))

        def mark(k: Expr) -> Stmt:
            """Unsorted, first: of each place, the first place with the same slice."""
            place = sorter.place(k)
            return seq(
                _starts(sorter, k), If(get(sorter.more), put(head, place)), store(inverse, place, get(head))
            )

        def assign(n: Expr) -> Stmt:
            """Unsorted, then: groups in the order of their first places."""
            first = read(inverse, [n])
            new = seq(begin(n), count_in(group, n))
            known = seq(put(head, read(inverse, [first])), count_in(get(head), n))
            return If(binary("eq", first, n), new, known)

        number = (
            loop("k", extent, walk)
            if attrs["sorted"]
            else seq(loop("k", extent, mark), loop("n", extent, assign))
        )

        def copy(g: Expr) -> Stmt:
            extents = (before, extent, extent, behind)
            return If(binary("lt", g, total), slice_copy(y, x, extents, g, lambda: read(indices, [g])))

        program = seq(
            *(cleared(target) for target in (y, indices, counts)),
            put(groups, 0),
            sorter.sort(),
            number,
            loop("g", extent, copy),
            store(count, const(0), total),
        )
        return with_cells([groups, head, *sorter.cells()], program)

    return loop_program("unique", types, outputs, body)


def _starts(sorter: _Sorter, k: Expr) -> Stmt:
    """more = whether the k-th slice in order differs from the one before it."""
    differs = seq(
        sorter.compare(sorter.place(sub(k, const(1))), sorter.place(k)),
        put(sorter.more, binary("ne", get(sorter.verdict), const(0))),
    )
    return seq(put(sorter.more, True), If(binary("gt", k, const(0)), differs))


operator(
    "Unique",
    "the distinct slices along an axis, sorted or by first place; their first places, the number of each "
    "slice among them, how often each occurs, how many they are, and all places in order",
    [Operand("x")],
    [
        Operand("y"),
        Operand("indices"),
        Operand("inverse"),
        Operand("counts"),
        Operand("count"),
        Operand("order"),
    ],
    _infer,
    _evaluate,
    {"axis": Attr("int", required=True), "sorted": Attr("bool", True)},
    loops=_loops,
)
