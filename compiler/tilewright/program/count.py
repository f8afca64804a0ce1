"""Counts the arithmetic of a kernel from its loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

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

_INTEGER_OPS = ("add", "sub", "mul")
_MANY = 1 << 16  # turns that are looked at one by one when an inner extent depends on them


@dataclass(frozen=True)
class Work:
    """Operations, a multiply-add being two.

    flops: of floats; int_ops: additions, subtractions and products of integers that are read, which indices
    are not; intrinsics: those of both kinds in loops of an intrinsic, by its name.
    """

    flops: int = 0
    int_ops: int = 0
    intrinsics: Mapping[str, int] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        return self.flops + self.int_ops

    def times(self, turns: int) -> Work:
        return Work(
            turns * self.flops,
            turns * self.int_ops,
            {name: turns * count for name, count in self.intrinsics.items()},
        )


def count_work(stmt: Stmt) -> Work:
    """The operations of a statement.

    Of two branches the dearer one counts, so this is an upper bound where work is skipped. The turns of a
    `while` depend on data and count once.
    """
    return _Counter().count(stmt, {})


def total(parts: Iterable[Work]) -> Work:
    """Work that is done one after the other."""
    flops = int_ops = 0
    intrinsics: dict[str, int] = {}
    for part in parts:
        flops += part.flops
        int_ops += part.int_ops
        for name, count in part.intrinsics.items():
            intrinsics[name] = intrinsics.get(name, 0) + count
    return Work(flops, int_ops, intrinsics)


class _Counter:
    """Counts each statement once for all values of the variables that extents in it depend on."""

    def __init__(self) -> None:
        self._extents: dict[int, frozenset[str]] = {}
        self._direct: dict[int, Work] = {}
        self._known: dict[tuple[int, tuple[tuple[str, int], ...]], Work] = {}

    def count(self, stmt: Stmt, bound: Mapping[str, int]) -> Work:
        relevant = self._variables(stmt)
        key = (id(stmt), tuple((name, bound[name]) for name in sorted(relevant & bound.keys())))
        if key not in self._known:
            self._known[key] = self._count(stmt, bound)
        return self._known[key]

    def _count(self, stmt: Stmt, bound: Mapping[str, int]) -> Work:
        if isinstance(stmt, For):
            return self._count_loop(stmt, bound)
        inner = [self.count(part, bound) for part in sub_statements(stmt)]
        if isinstance(stmt, If):
            inner = [max(inner, key=lambda work: work.operations)]
        return total([self._own(stmt), *inner])

    def _own(self, stmt: Stmt) -> Work:
        """What stands directly in the statement; indices are integers and count nothing."""
        if id(stmt) not in self._direct:
            values = (stmt.value,) if isinstance(stmt, Store) else expressions(stmt)
            counts = list(map(_operations, values))
            self._direct[id(stmt)] = Work(sum(c[0] for c in counts), sum(c[1] for c in counts))
        return self._direct[id(stmt)]

    def _count_loop(self, loop: For, bound: Mapping[str, int]) -> Work:
        constants = {name: const(value) for name, value in bound.items()}
        extent, start = substitute(loop.extent, constants), substitute(loop.start, constants)
        turns = int(extent.value) if isinstance(extent, Const) else 1
        if turns <= 0:
            return Work()
        depends = loop.var.name in self._variables(loop.body)
        if not depends or turns > _MANY or not isinstance(start, Const):
            work = self.count(loop.body, bound).times(turns)
        else:
            first = int(start.value)
            work = total(self.count(loop.body, {**bound, loop.var.name: first + n}) for n in range(turns))
        if loop.intrinsic and work.operations:
            return replace(work, intrinsics={loop.intrinsic: work.operations})
        return work

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


def _operations(e: Expr) -> tuple[int, int]:
    """Of floats, and of integers."""
    if isinstance(e, Read):
        return 0, 0
    if isinstance(e, Select):
        parts = [_operations(e.condition), max(_operations(e.a), _operations(e.b), key=sum)]
    else:
        parts = [_operations(part) for part in children(e)]
    flops, int_ops = sum(part[0] for part in parts), sum(part[1] for part in parts)
    if isinstance(e, Binary) and e.dtype.is_float and e.op not in COMPARISONS:
        return flops + 1, int_ops
    if isinstance(e, Binary) and e.dtype.is_integer and e.op in _INTEGER_OPS and _reads(e):
        return flops, int_ops + 1
    if isinstance(e, Call) and e.dtype.is_float:
        return flops + (2 if e.name == "fma" else 1), int_ops
    return flops, int_ops


def _reads(e: Expr) -> bool:
    """Whether the value comes from memory; that of loop variables alone is an index or a bound."""
    return isinstance(e, Read) or any(map(_reads, children(e)))
