"""The form of private buffers: an array, one variable an element, or one vector variable an index prefix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.dtypes import F32
from tilewright.expr import Const, Expr, Var, const, free_vars, reads_of, substitute
from tilewright.loops.ir import (
    Block,
    Buffer,
    For,
    If,
    LoopKind,
    Stmt,
    Store,
    expressions,
    map_expressions,
    sub_statements,
)
from tilewright.targets.opencl.expressions import Home, Lane

# Not 16: where registers have 256 bits, PoCL 3.0 passes such vectors to its vload16 in a way that its own
# LLVM cannot compile, and ends the process.
WIDTHS = (2, 4, 8)
WIDEST = WIDTHS[-1]

Access = tuple[str, tuple[Expr, ...], Lane | None]


def lane_of(loop: For) -> Lane | None:
    """The lanes of a loop that vectors can carry, or None when it has to run one turn at a time.

    Vectors need an OpenCL width, start 0, and a body of stores, and loops and branches that all lanes share.
    """
    if loop.kind != LoopKind.VECTORIZED or not isinstance(loop.extent, Const):
        return None
    if loop.extent.value not in WIDTHS or loop.start != Const(0, loop.start.dtype):
        return None
    return Lane(loop.var.name, int(loop.extent.value)) if _shared_control(loop.body, loop.var.name) else None


def halved(loop: For) -> For | None:
    """A vector loop of 16, 24, ... lanes as a loop over vectors of the widest kind; None for others.

    vectorized j in 0..16: s(j)     ->     for j.part in 0..2: vectorized j in 0..8: s(j.part * 8 + j)
    """
    if loop.kind != LoopKind.VECTORIZED or not isinstance(loop.extent, Const):
        return None
    extent = int(loop.extent.value)
    if extent <= WIDEST or extent % WIDEST or loop.start != Const(0, loop.start.dtype):
        return None
    part = Var(f"{loop.var.name}.part")
    moved = part * WIDEST + loop.var
    body = map_expressions(loop.body, lambda e: substitute(e, {loop.var.name: moved}))
    inner = replace(loop, body=body, extent=const(WIDEST))
    return For(part, const(extent // WIDEST), inner, LoopKind.UNROLLED)


def _shared_control(stmt: Stmt, name: str) -> bool:
    if isinstance(stmt, Store):
        return True
    if isinstance(stmt, For):
        uniform = not any(name in free_vars(e) for e in (stmt.start, stmt.extent))
        plain = stmt.kind in (LoopKind.SERIAL, LoopKind.UNROLLED)
        return uniform and plain and _shared_control(stmt.body, name)
    if isinstance(stmt, If):
        uniform = name not in free_vars(stmt.condition)
        return uniform and all(_shared_control(part, name) for part in sub_statements(stmt))
    return isinstance(stmt, Block) and all(_shared_control(part, name) for part in stmt.body)


def accesses(stmt: Stmt, lane: Lane | None = None) -> Iterator[Access]:
    """Every use of a buffer: its name, the indices, and the lanes of the vector loop around it."""
    if isinstance(stmt, For) and lane is None:
        lane = lane_of(stmt)
    for e in expressions(stmt):
        for r in reads_of(e):
            yield r.source.name, r.indices, lane
    if isinstance(stmt, Store):
        yield stmt.buffer.name, stmt.indices, lane
    for part in sub_statements(stmt):
        yield from accesses(part, lane)


def place(buffer: Buffer, body: Stmt, text: str) -> Home:
    """The form in which a private buffer is kept, given everything that happens to it."""
    uses = [(indices, lane) for name, indices, lane in accesses(body) if name == buffer.name]
    if all(_all_constant(indices) for indices, _ in uses):
        return Home(buffer, text, "scalars", private=True)
    if buffer.dtype == F32 and buffer.shape and all(_whole_vector(buffer, *use) for use in uses):
        fixed = all(_all_constant(indices[:-1]) for indices, _ in uses)
        return Home(buffer, text, "vectors", fixed=fixed, private=True)
    return Home(buffer, text, private=True)


def _all_constant(indices: tuple[Expr, ...]) -> bool:
    return all(isinstance(index, Const) for index in indices)


def _whole_vector(buffer: Buffer, indices: tuple[Expr, ...], lane: Lane | None) -> bool:
    """Whether a use touches one vector whole, or one lane of it whose number is constant."""
    if isinstance(indices[-1], Const):
        return buffer.shape[-1] in WIDTHS
    if lane is None or indices[-1] != Var(lane.name) or buffer.shape[-1] != lane.count:
        return False
    return not any(lane.name in free_vars(index) for index in indices[:-1])
