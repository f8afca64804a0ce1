"""Before code is written: which vectorised loops become vector code, which buffers live in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.expr import Binary, Const, Expr, Read, Var, free_vars, reads_of
from tilewright.loops.ir import (
    Allocate,
    Buffer,
    Evaluate,
    For,
    LoopKind,
    Stmt,
    Store,
    While,
    expressions,
    map_statements,
    sub_statements,
    walk,
)
from tilewright.loops.simplify import bind

MAX_LANES = 64


def settle_loops(stmt: Stmt, vectorized: bool = False) -> Stmt:
    """The statement with vectorised loops that cannot become vector code made serial, and single lanes bound.

    A loop whose lanes all write one element (a reduction, or a scratch scalar) runs one lane after the other.
    """
    if not isinstance(stmt, For) or stmt.kind != LoopKind.VECTORIZED:
        return map_statements(stmt, lambda part: settle_loops(part, vectorized))
    if isinstance(stmt.extent, Const) and stmt.extent.value == 1 and isinstance(stmt.start, Const):
        return settle_loops(bind(stmt.body, stmt.var, stmt.start), vectorized)
    if vectorized or not _is_vector_loop(stmt):
        return replace(stmt, kind=LoopKind.SERIAL, body=settle_loops(stmt.body, vectorized))
    return replace(stmt, body=settle_loops(stmt.body, True))


def _is_vector_loop(loop: For) -> bool:
    if not isinstance(loop.extent, Const) or not 1 < loop.extent.value <= MAX_LANES:
        return False
    if loop.start != Const(0, loop.var.dtype):
        return False
    for stmt in walk(loop.body):
        if isinstance(stmt, (While, Evaluate, Allocate)):
            return False
        if isinstance(stmt, For) and any(loop.var.name in free_vars(e) for e in expressions(stmt)):
            return False
        if isinstance(stmt, Store) and not any(loop.var.name in free_vars(i) for i in stmt.indices):
            return False
    return True


# an access: its indices, and the vector loop around it
Access = tuple[Sequence[Expr], For | None]


def register_slots(buffer: Buffer, body: Stmt) -> tuple[int, list[tuple[int, ...]]] | None:
    """How a register buffer is kept: lanes of a slot (0: scalars) and the indices of all slots.

    None when some index is not known at compile time, or a parallel loop shares the buffer: it then lives in
    memory.
    """
    accesses = list(_accesses(buffer, body, None))
    if not buffer.shape or any(loop and loop.kind == LoopKind.PARALLEL for _, loop in accesses):
        return None
    vectors = {
        int(loop.extent.value)  # type: ignore[attr-defined]  # vector loops have constant extents
        for indices, loop in accesses
        if loop is not None and loop.var.name in free_vars(indices[-1])
    }
    if len(vectors) > 1:
        return None
    lanes = vectors.pop() if vectors else 0
    if lanes and buffer.shape[-1] % lanes:
        return None
    slots: dict[tuple[int, ...], None] = {}
    for indices, loop in accesses:
        slot = _slot(indices, loop, lanes, buffer)
        if slot is None:
            return None
        slots[slot] = None
    return lanes, list(slots)


def _slot(indices: Sequence[Expr], loop: For | None, lanes: int, buffer: Buffer) -> tuple[int, ...] | None:
    constants: list[int] = []
    for axis, index in enumerate(indices):
        last = axis == len(indices) - 1
        constant = _constant(index, loop if last else None, lanes)
        if constant is None or not 0 <= constant < buffer.shape[axis]:
            return None
        constants.append(constant)
    if lanes:
        constants[-1] //= lanes
    return tuple(constants)


def _constant(index: Expr, loop: For | None, lanes: int) -> int | None:
    """The constant in `constant` or `constant + lane`, where that constant starts a slot."""
    if isinstance(index, Const):
        return int(index.value)
    if loop is None:
        return None
    if index == loop.var:
        return 0
    if not isinstance(index, Binary) or index.op != "add":
        return None
    for lane, other in ((index.a, index.b), (index.b, index.a)):
        if isinstance(lane, Var) and lane == loop.var and isinstance(other, Const):
            return int(other.value) if other.value % lanes == 0 else None
    return None


def _accesses(buffer: Buffer, stmt: Stmt, loop: For | None) -> Iterator[Access]:
    for e in expressions(stmt):
        for read in reads_of(e):
            if is_buffer(read, buffer):
                yield read.indices, loop
    if isinstance(stmt, Store) and stmt.buffer.name == buffer.name:
        yield stmt.indices, loop
    if isinstance(stmt, For) and stmt.kind in (LoopKind.VECTORIZED, LoopKind.PARALLEL):
        loop = stmt
    for part in sub_statements(stmt):
        yield from _accesses(buffer, part, loop)


def is_buffer(read: Read, buffer: Buffer) -> bool:
    return isinstance(read.source, Buffer) and read.source.name == buffer.name


def used_names(stmt: Stmt) -> tuple[list[str], list[str]]:
    """Names of variables and of buffers that the statement mentions, in order of first use."""
    variables: dict[str, None] = {}
    buffers: dict[str, None] = {}
    for part in walk(stmt):
        for e in expressions(part):
            variables.update(dict.fromkeys(sorted(free_vars(e))))
            buffers.update(dict.fromkeys(read.source.name for read in reads_of(e)))
        if isinstance(part, Store):
            buffers[part.buffer.name] = None
    return list(variables), list(buffers)
