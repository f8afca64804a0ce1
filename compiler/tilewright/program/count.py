"""Counts the arithmetic of a kernel from its loops."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.expr import (
    COMPARISONS,
    Binary,
    Call,
    Const,
    Expr,
    Select,
    children,
    const,
    free_vars,
    substitute,
)
from tilewright.loops.ir import For, If, Stmt, expressions, sub_statements, walk

_MANY = 1 << 16  # turns that are looked at one by one when an inner extent depends on them


def count_operations(stmt: Stmt, bound: Mapping[str, Expr] | None = None) -> int:
    """Floating-point operations of a statement; a fused multiply-add counts as two.

    Of two branches the dearer one counts, so this is an upper bound where work is skipped; the turns of a
    `while` depend on data and count once.
    """
    bound = bound or {}
    if isinstance(stmt, For):
        return _count_loop(stmt, bound)
    own = sum(_operations(e) for e in expressions(stmt))
    inner = [count_operations(part, bound) for part in sub_statements(stmt)]
    return own + (max(inner) if isinstance(stmt, If) else sum(inner))


def _count_loop(loop: For, bound: Mapping[str, Expr]) -> int:
    extent, start = substitute(loop.extent, bound), substitute(loop.start, bound)
    turns = extent.value if isinstance(extent, Const) else 1
    if turns <= 0:
        return 0
    inner = {name for s in walk(loop.body) if isinstance(s, For) for name in free_vars(s.extent)}
    if loop.var.name not in inner or turns > _MANY or not isinstance(start, Const):
        return int(turns) * count_operations(loop.body, bound)
    first = int(start.value)
    return sum(
        count_operations(loop.body, {**bound, loop.var.name: const(value)})
        for value in range(first, first + int(turns))
    )


def _operations(e: Expr) -> int:
    if isinstance(e, Select):
        return _operations(e.condition) + max(_operations(e.a), _operations(e.b))
    below = sum(_operations(part) for part in children(e))
    if isinstance(e, Binary) and e.dtype.is_float and e.op not in COMPARISONS:
        return below + 1
    if isinstance(e, Call) and e.dtype.is_float:
        return below + (2 if e.name == "fma" else 1)
    return below
