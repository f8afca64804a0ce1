"""Determinants by elimination with partial pivoting."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import VerifyError
from tilewright.expr import Expr, Var, add, binary, call, cast, const, mul, read, sub
from tilewright.loops.ir import Allocate, Buffer, For, If, Kernel, Role, Stmt, Store, seq
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.operator import Attrs, Operand
from tilewright.ops.reading import accumulator
from tilewright.types import TensorType


def _infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise VerifyError(f"Det: shape {list(x.shape)} is no stack of square matrices")
    return (TensorType(x.dtype, x.shape[:-2]),)


def _evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    with np.errstate(all="ignore"):
        value = np.linalg.det(x.astype(wide(x.dtype), copy=False))
    return (np.asarray(value).astype(x.dtype, copy=False),)


def _loops(types: Sequence[TensorType | None], _: Attrs, results: Sequence[TensorType]) -> Kernel:
    """One matrix after the other is copied into scratch memory and brought to triangular form there."""
    type = required(types, 0)
    n, batch = type.shape[-1], prod(type.shape[:-2])
    work = accumulator(type.dtype)
    x, y = Buffer("x", type.dtype, (batch, n, n)), Buffer("y", type.dtype, (batch,))
    a = Buffer("a", work, (max(1, n), max(1, n)), "local")
    value, pivot, factor = (
        Buffer(name, dtype, (1,), "register")
        for name, dtype in (("value", work), ("pivot", I64), ("factor", work))
    )
    b, i, j, k = (Var(name) for name in "bijk")
    zero, size = const(0), const(n)

    def at(row: Expr, column: Expr) -> Expr:
        return read(a, [row, column])

    def put(row: Expr, column: Expr, e: Expr) -> Stmt:
        return Store(a, (row, column), e)

    def one(buffer: Buffer) -> Expr:
        return read(buffer, [zero])

    def set_one(buffer: Buffer, e: Expr) -> Stmt:
        return Store(buffer, (zero,), e)

    below = add(k, const(1))
    rest = sub(size, below)
    copied = For(i, size, For(j, size, put(i, j, cast(read(x, [b, i, j]), work))))
    larger = binary("gt", call("abs", at(i, k)), call("abs", at(one(pivot), k)))
    search = seq(set_one(pivot, k), For(i, rest, If(larger, set_one(pivot, i)), start=below))
    swapped = seq(set_one(factor, at(k, j)), put(k, j, at(one(pivot), j)), put(one(pivot), j, one(factor)))
    swap = If(
        binary("ne", one(pivot), k),
        seq(For(j, size, swapped), set_one(value, one(value) * -1)),
    )
    eliminate = seq(
        set_one(factor, at(i, k) / at(k, k)),
        For(j, rest, put(i, j, sub(at(i, j), mul(one(factor), at(k, j)))), start=below),
    )
    column = seq(
        search,
        swap,
        set_one(value, mul(one(value), at(k, k))),
        If(binary("ne", at(k, k), const(0, work)), For(i, rest, eliminate, start=below)),
    )
    each = seq(
        copied,
        set_one(value, const(1, work)),
        For(k, size, column),
        Store(y, (b,), cast(one(value), type.dtype)),
    )
    body: Stmt = For(b, const(batch), each)
    for buffer in (factor, pivot, value, a):
        body = Allocate(buffer, body)
    return Kernel(f"det_{type.dtype}_{batch}_{n}", (x, y), (Role.IN, Role.OUT), body)


operator(
    "Det",
    "determinants of a stack of square matrices",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    _infer,
    _evaluate,
    loops=_loops,
)
