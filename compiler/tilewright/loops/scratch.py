"""Loop pass: large local buffers become scratch parameters, memory of the arena that the program plans.

    kernel k(@in x, @out y)                    kernel k(@in x, @out y, @scratch t: f32[100000])
      alloc t: f32[100000] in local { s }  ->    s

A buffer inside a parallel loop is one for each thread and stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.expr import Expr, Read, rewrite
from tilewright.loops.ir import (
    Allocate,
    Buffer,
    For,
    Kernel,
    LoopKind,
    Role,
    Stmt,
    Store,
    map_expressions,
    map_statements,
)


@dataclass(frozen=True)
class HoistScratch:
    """min_bytes: buffers from this size on."""

    min_bytes: int = 1 << 16

    def run(self, kernel: Kernel) -> Kernel:
        found: dict[str, Buffer] = {}
        body = self._visit(kernel.body, found)
        if not found:
            return kernel
        buffers = tuple(replace(buffer, scope="global") for buffer in found.values())
        params, roles = (*kernel.params, *buffers), (*kernel.roles, *(Role.SCRATCH for _ in buffers))
        return replace(kernel, params=params, roles=roles, body=_renamed(body, found))

    def _visit(self, stmt: Stmt, found: dict[str, Buffer]) -> Stmt:
        if isinstance(stmt, For) and stmt.kind in (LoopKind.PARALLEL, LoopKind.BOUND):
            return stmt
        if (
            isinstance(stmt, Allocate)
            and stmt.buffer.scope == "local"
            and stmt.buffer.bytes >= self.min_bytes
        ):
            known = found.setdefault(stmt.buffer.name, stmt.buffer)
            if known == stmt.buffer:
                return self._visit(stmt.body, found)
        return map_statements(stmt, lambda part: self._visit(part, found))


def _renamed(stmt: Stmt, found: dict[str, Buffer]) -> Stmt:
    """The statement with accesses to the found buffers, wherever they are, in their new scope."""

    scoped = {buffer: replace(buffer, scope="global") for buffer in found.values()}

    def read(e: Expr) -> Expr | None:
        return (
            Read(scoped[e.source], e.indices, e.dtype) if isinstance(e, Read) and e.source in scoped else None
        )

    def stores(part: Stmt) -> Stmt:
        if isinstance(part, Store) and part.buffer in scoped:
            return replace(part, buffer=scoped[part.buffer])
        return map_statements(part, stores)

    return stores(map_expressions(stmt, lambda e: rewrite(e, read)))
