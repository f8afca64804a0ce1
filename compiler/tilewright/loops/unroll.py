"""Loop pass: write out the turns of unrolled loops.

    unrolled for i in 0..2: a[i] = b[i]     ->     a[0] = b[0]; a[1] = b[1]

Register tiles become straight code by this, with constant indices. A limit on the statements of a kernel
keeps code small: beyond it the loop stays as a serial one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.expr import Const, const
from tilewright.loops.affine import Bounds
from tilewright.loops.ir import For, Kernel, LoopKind, Stmt, map_statements, seq, walk
from tilewright.loops.simplify import bind, simplify


@dataclass(frozen=True)
class Unroll:
    """max_statements: of one written-out loop nest."""

    max_statements: int = 1024

    def run(self, kernel: Kernel) -> Kernel:
        return kernel.with_body(simplify(self._visit(kernel.body), Bounds()))

    def _visit(self, stmt: Stmt) -> Stmt:
        stmt = map_statements(stmt, self._visit)
        if not isinstance(stmt, For) or stmt.kind != LoopKind.UNROLLED:
            return stmt
        extent, start = stmt.extent, stmt.start
        size = sum(1 for _ in walk(stmt.body))
        if (
            not isinstance(extent, Const)
            or not isinstance(start, Const)
            or extent.value * size > self.max_statements
        ):
            return replace(stmt, kind=LoopKind.SERIAL)
        return seq(*(bind(stmt.body, stmt.var, const(start.value + i)) for i in range(int(extent.value))))
