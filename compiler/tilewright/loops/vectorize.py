"""Loop pass: keep only those vector loops that can be vector instructions; the others run serially.

A vector loop must have a constant extent of at most MAX_LANES and hold nothing but stores, branches that all
lanes take together, and the loop of an intrinsic over what each lane sums up. Schedules ask for vector loops;
tails and guards can make one impossible in a corner of a kernel.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.expr import Const, Expr, free_vars
from tilewright.loops.ir import Block, For, If, Kernel, LoopKind, Stmt, Store, map_statements

MAX_LANES = 64


def legalize_vectors(kernel: Kernel) -> Kernel:
    """The kernel with impossible vector loops made serial."""
    return kernel.with_body(_visit(kernel.body))


def _visit(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind == LoopKind.VECTORIZED:
        fits = isinstance(stmt.extent, Const) and stmt.extent.value <= MAX_LANES and stmt.start == _zero(stmt)
        summed = stmt.intrinsic and isinstance(stmt.body, For) and isinstance(stmt.body.extent, Const)
        body = stmt.body.body if summed else stmt.body  # type: ignore[attr-defined]
        if not fits or not _uniform(body, stmt.var.name):
            stmt = replace(stmt, kind=LoopKind.SERIAL)
    return map_statements(stmt, _visit)


def _zero(loop: For) -> Expr:
    return Const(0, loop.var.dtype)


def _uniform(stmt: Stmt, lane: str) -> bool:
    if isinstance(stmt, Block):
        return all(_uniform(part, lane) for part in stmt.body)
    if isinstance(stmt, If):
        inner = _uniform(stmt.then, lane) and (stmt.orelse is None or _uniform(stmt.orelse, lane))
        return inner and lane not in free_vars(stmt.condition)
    return isinstance(stmt, Store)
