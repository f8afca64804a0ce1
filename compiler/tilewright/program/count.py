"""Counts the arithmetic of a kernel from its loops."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.expr import (
    COMPARISONS,
    Binary,
    Call,
    Const,
    Expr,
    Read,
    Select,
    children,
    const,
    free_vars,
    substitute,
)
from tilewright.loops.ir import For, If, Stmt, Store, expressions, sub_statements

_MANY = 1 << 16  # turns that are looked at one by one when an inner extent depends on them


def count_operations(stmt: Stmt) -> int:
    """Floating-point operations of a statement; a fused multiply-add counts as two.

    Of two branches the dearer one counts, so this is an upper bound where work is skipped. The turns of a
    `while` depend on data and count once.
    """
    return _Counter().count(stmt, {})


class _Counter:
    """Counts each statement once for all values of the variables that extents in it depend on."""

    def __init__(self) -> None:
        self._extents: dict[int, frozenset[str]] = {}
        self._direct: dict[int, int] = {}
        self._known: dict[tuple[int, tuple[tuple[str, int], ...]], int] = {}

    def count(self, stmt: Stmt, bound: Mapping[str, int]) -> int:
        relevant = self._variables(stmt)
        key = (id(stmt), tuple((name, bound[name]) for name in sorted(relevant & bound.keys())))
        if key not in self._known:
            self._known[key] = self._count(stmt, bound)
        return self._known[key]

    def _count(self, stmt: Stmt, bound: Mapping[str, int]) -> int:
        if isinstance(stmt, For):
            return self._count_loop(stmt, bound)
        inner = [self.count(part, bound) for part in sub_statements(stmt)]
        return self._own(stmt) + (max(inner) if isinstance(stmt, If) else sum(inner))

    def _own(self, stmt: Stmt) -> int:
        """What stands directly in the statement; indices are integers and count nothing."""
        if id(stmt) not in self._direct:
            values = (stmt.value,) if isinstance(stmt, Store) else expressions(stmt)
            self._direct[id(stmt)] = sum(map(_operations, values))
        return self._direct[id(stmt)]

    def _count_loop(self, loop: For, bound: Mapping[str, int]) -> int:
        constants = {name: const(value) for name, value in bound.items()}
        extent, start = substitute(loop.extent, constants), substitute(loop.start, constants)
        turns = int(extent.value) if isinstance(extent, Const) else 1
        if turns <= 0:
            return 0
        depends = loop.var.name in self._variables(loop.body)
        if not depends or turns > _MANY or not isinstance(start, Const):
            return turns * self.count(loop.body, bound)
        first = int(start.value)
        return sum(self.count(loop.body, {**bound, loop.var.name: first + n}) for n in range(turns))

    def _variables(self, stmt: Stmt) -> frozenset[str]:
        """Variables in the extents and starts of all loops of a statement."""
        if id(stmt) not in self._extents:
            found: set[str] = set()
            for part in sub_statements(stmt):
                found |= self._variables(part)
            if isinstance(stmt, For):
                found |= free_vars(stmt.extent) | free_vars(stmt.start)
            self._extents[id(stmt)] = frozenset(found)
        return self._extents[id(stmt)]


def _operations(e: Expr) -> int:
    if isinstance(e, Read):
        return 0
    if isinstance(e, Select):
        return _operations(e.condition) + max(_operations(e.a), _operations(e.b))
    below = sum(_operations(part) for part in children(e))
    if isinstance(e, Binary) and e.dtype.is_float and e.op not in COMPARISONS:
        return below + 1
    if isinstance(e, Call) and e.dtype.is_float:
        return below + (2 if e.name == "fma" else 1)
    return below
