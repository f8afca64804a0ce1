"""The text of unrolled loops stays short: equal instructions and values in registers are written once."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright.dtypes import BOOL, F32
from tilewright.expr import Var, add, binary, const, mul, read
from tilewright.loops.ir import Allocate, Buffer, For, If, Kernel, LoopKind, Role, Stmt, Store, seq
from tilewright.lower.kernel import finish_kernel
from tilewright.machine import Machine
from tilewright.targets.cpu.codegen import kernel_text

LANE, ROW, TERM = Var("v"), Var("r"), Var("k")
X, W, Y = Buffer("x", F32, (6, 8)), Buffer("w", F32, (4,)), Buffer("y", F32, (3, 8))
SUMS = Buffer("sums", F32, (3, 8), "register")


def vector(body: Stmt) -> Stmt:
    return For(LANE, const(8), body, LoopKind.VECTORIZED)


def unrolled(var: Var, extent: int, body: Stmt) -> Stmt:
    return For(var, const(extent), body, LoopKind.UNROLLED)


def tile(middle: Stmt | None = None) -> Kernel:
    """y[r] = sum over k of w[k] x[r + k], three rows in registers."""
    here = (ROW, LANE)
    product = mul(read(W, (TERM,)), read(X, (add(ROW, TERM), LANE)))
    step = Store(SUMS, here, add(read(SUMS, here), product))
    body = seq(
        unrolled(ROW, 3, vector(Store(SUMS, here, const(0.0, F32)))),
        unrolled(TERM, 4, unrolled(ROW, 3, vector(step))),
        middle,
        unrolled(ROW, 3, vector(Store(Y, here, read(SUMS, here)))),
    )
    roles = (Role.IN, Role.IN, Role.OUT)
    return finish_kernel(Kernel("tile", (X, W, Y), roles, Allocate(SUMS, body)))


def operands() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(b.shape).astype(np.float32) for b in (X, W, Y)]


def test_what_is_read_twice_is_loaded_once(check, machine: Machine) -> None:
    text = kernel_text(tile(), machine)
    assert len(re.findall("= load <8 x float>", text)) == 6  # rows of x; sums are never read back
    assert len(re.findall("= load float", text)) == 4
    assert len(re.findall("store <8 x float>", text)) == 6  # each sum at its end, and its result
    check(tile(), machine, *operands(), rtol=1e-5)


def test_what_a_branch_stores_is_read_after_it(check, machine: Machine) -> None:
    row = (const(1), LANE)
    positive = binary("gt", read(X, (const(0), const(0))), const(0.0, F32))
    assert positive.dtype == BOOL
    doubled = vector(Store(SUMS, row, add(read(SUMS, row), read(SUMS, row))))
    kernel = tile(If(positive, doubled, vector(Store(SUMS, row, const(1.0, F32)))))
    for sign in (-1, 1):
        x, w, y = operands()
        x[0, 0] = sign
        check(kernel, machine, x, w, y, rtol=1e-5)


@pytest.mark.parametrize("role", [Role.INOUT, Role.OUT])
def test_memory_that_is_written_is_read_again(check, machine: Machine, role: Role) -> None:
    if role == Role.OUT:
        first = vector(Store(Y, (const(0), LANE), const(2.0, F32)))
    else:
        first = vector(Store(Y, (const(0), LANE), mul(read(Y, (const(0), LANE)), const(3.0, F32))))
    again = vector(Store(Y, (const(1), LANE), read(Y, (const(0), LANE))))
    last = vector(Store(Y, (const(2), LANE), read(Y, (const(0), LANE))))
    change = vector(Store(Y, (const(0), LANE), add(read(Y, (const(0), LANE)), const(1.0, F32))))
    kernel = Kernel("again", (X, Y), (Role.IN, role), seq(first, again, change, last))
    check(kernel, machine, operands()[0], operands()[2])
