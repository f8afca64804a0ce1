"""Before code is written: which vectorised loops become vector code, which buffers live in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.expr import Binary, Const, Expr, Read, Var, children, free_vars
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


class Access(NamedTuple):
    """indices; loop: the vector loop around; shared: a parallel loop stands between allocation and access."""

    indices: Sequence[Expr]
    loop: For | None
    shared: bool


def register_slots(buffer: Buffer, accesses: Sequence[Access]) -> tuple[int, list[tuple[int, ...]]] | None:
    """How a register buffer is kept: lanes of a slot (0: scalars) and the indices of all slots.

    None when some index is not known at compile time, or a parallel loop shares the buffer: it then lives in
    memory.
    """
    if not buffer.shape or any(access.shared for access in accesses):
        return None
    vectors = {
        int(loop.extent.value)  # type: ignore[attr-defined]  # vector loops have constant extents
        for indices, loop, _ in accesses
        if loop is not None and loop.var.name in free_vars(indices[-1])
    }
    if len(vectors) > 1:
        return None
    lanes = vectors.pop() if vectors else 0
    if lanes and buffer.shape[-1] % lanes:
        return None
    slots: dict[tuple[int, ...], None] = {}
    for indices, loop, _ in accesses:
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


def accesses_of(stmt: Stmt) -> dict[str, list[Access]]:
    """Everything that is read and stored, by name of the buffer."""
    collector = _Collector()
    collector.visit(stmt, None, None)
    return collector.found


class _Collector:
    def __init__(self) -> None:
        self.found: dict[str, list[Access]] = {}
        self.allocated_in: dict[str, For | None] = {}  # the parallel loop around a buffer's allocation

    def visit(self, stmt: Stmt, vector: For | None, parallel: For | None) -> None:
        for e in expressions(stmt):
            for part in _leaves(e):
                if isinstance(part, Read):
                    self._add(part.source.name, part.indices, vector, parallel)
        if isinstance(stmt, Store):
            self._add(stmt.buffer.name, stmt.indices, vector, parallel)
        elif isinstance(stmt, Allocate):
            self.allocated_in[stmt.buffer.name] = parallel
        elif isinstance(stmt, For) and stmt.kind == LoopKind.VECTORIZED:
            vector = stmt
        elif isinstance(stmt, For) and stmt.kind == LoopKind.PARALLEL:
            parallel = stmt
        for inner in sub_statements(stmt):
            self.visit(inner, vector, parallel)

    def _add(self, name: str, indices: Sequence[Expr], vector: For | None, parallel: For | None) -> None:
        shared = parallel is not self.allocated_in.get(name)
        self.found.setdefault(name, []).append(Access(indices, vector, shared))


def _leaves(e: Expr) -> Iterator[Var | Read]:
    """All variables and reads. One loop, as kernels have many thousands of expression nodes."""
    stack = [e]
    while stack:
        top = stack.pop()
        if isinstance(top, Binary):
            stack += (top.b, top.a)
        elif isinstance(top, Read):
            yield top
            stack += reversed(top.indices)
        elif isinstance(top, Var):
            yield top
        elif not isinstance(top, Const):
            stack += reversed(children(top))


def used_names(stmt: Stmt) -> tuple[list[str], list[str]]:
    """Names of variables and of buffers that the statement mentions, in order of first use."""
    variables: dict[str, None] = {}
    buffers: dict[str, None] = {}
    for part in walk(stmt):
        for e in expressions(part):
            for leaf in _leaves(e):
                if isinstance(leaf, Var):
                    variables[leaf.name] = None
                else:
                    buffers[leaf.source.name] = None
        if isinstance(part, Store):
            buffers[part.buffer.name] = None
    return list(variables), list(buffers)
