"""Loop pass: cut loops at the places where conditions change, so that their main parts run without guards.

    for i in 0..4:                         for i in 0..3:
      for j in 0..8:                         for j in 0..8: s
        if i * 8 + j < 30: s        ->     for j in 0..6: s        (i = 3)

A parallel loop is not cut in two (that would be two fork-joins) but gets a branch inside. When the budget for
code does not allow all cuts, inner loops have theirs: guards that differ by lane cost most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import TypeGuard

from tilewright.expr import Binary, Const, Expr, Select, Var, binary, children, const, free_vars
from tilewright.loops.affine import Bounds, Linear, at_least_zero
from tilewright.loops.ir import (
    For,
    If,
    Kernel,
    LoopKind,
    Stmt,
    expressions,
    map_statements,
    seq,
    sub_statements,
)
from tilewright.loops.simplify import simplify
from tilewright.loops.size import written_out, written_out_alone


@dataclass(frozen=True)
class Partition:
    """max_segments: a loop is cut into at most so many parts; max_size: of the kernel afterwards, with its
    unrolled loops written out (`size.py`).
    """

    max_segments: int = 6
    max_size: int = 2800

    def run(self, kernel: Kernel) -> Kernel:
        if not _conditions(kernel.body, Bounds()):
            return kernel
        # where all cuts fit together, no share of the budget has to be worked out
        fits = self._grown(kernel.body, Bounds()) <= self.max_size
        return kernel.with_body(self._visit(kernel.body, Bounds(), inf if fits else self.max_size))

    def _visit(self, stmt: Stmt, bounds: Bounds, budget: float) -> Stmt:
        if not isinstance(stmt, For):
            if budget == inf:
                return map_statements(stmt, lambda part: self._visit(part, bounds, inf))
            share = budget / max(1, sum(self._grown(part, bounds) for part in sub_statements(stmt)))
            return map_statements(
                stmt, lambda part: self._visit(part, bounds, share * self._grown(part, bounds))
            )
        low, high = bounds.of_loop(stmt.start, stmt.extent)
        inner = bounds.extended(stmt.var.name, low, high)
        cuts = self._cuts(stmt, inner, budget)
        if not cuts:
            return replace(stmt, body=self._visit(stmt.body, inner, budget))
        budget /= len(cuts) + 1
        if stmt.kind == LoopKind.PARALLEL:
            return replace(stmt, body=self._branches(stmt, cuts, inner, budget))
        parts = []
        for start, stop in zip([int(low), *cuts], [*cuts, int(high) + 1], strict=True):
            part = replace(stmt, start=const(start), extent=const(stop - start))
            parts.append(self._visit(simplify(part, bounds), bounds, budget))
        return seq(*parts)

    def _branches(self, loop: For, cuts: list[int], bounds: Bounds, budget: float) -> Stmt:
        low, high = bounds.ranges[loop.var.name]
        result: Stmt | None = None
        for start, stop in reversed(list(zip([int(low), *cuts], [*cuts, int(high) + 1], strict=True))):
            within = bounds.extended(loop.var.name, start, stop - 1)
            body = self._visit(simplify(loop.body, within), within, budget)
            result = body if result is None else If(binary("lt", loop.var, const(stop)), body, result)
        assert result is not None
        return result

    def _grown(self, stmt: Stmt, bounds: Bounds) -> int:
        """The size when all cuts are made."""
        if not isinstance(stmt, For):
            return written_out_alone(stmt) + sum(self._grown(part, bounds) for part in sub_statements(stmt))
        if stmt.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL):
            return written_out(stmt)
        low, high = bounds.of_loop(stmt.start, stmt.extent)
        inner = bounds.extended(stmt.var.name, low, high)
        return 1 + (len(self._cuts(stmt, inner, inf)) + 1) * self._grown(stmt.body, inner)

    def _cuts(self, loop: For, bounds: Bounds, budget: float) -> list[int]:
        """Values of the loop variable at which some condition inside begins or ceases to be decided."""
        low, high = bounds.ranges[loop.var.name]
        constant = isinstance(loop.start, Const) and isinstance(loop.extent, Const)
        if loop.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL) or not constant:
            return []
        found: set[int] = set()
        for condition, inside in _conditions(loop.body, bounds):
            for form in at_least_zero(condition) or []:
                found |= _changes(form, loop.var, inside)
        cuts = sorted(c for c in found if low < c <= high)
        if not cuts or len(cuts) >= self.max_segments:
            return []
        fits = budget == inf or (len(cuts) + 1) * self._grown(loop.body, bounds) <= budget
        return cuts if fits else []


def _changes(form: Linear, var: Var, bounds: Bounds) -> set[int]:
    """Where `coefficient * var + rest >= 0` becomes surely true or surely false."""
    coefficient = form.terms.get(var, 0)
    others = {atom: c for atom, c in form.terms.items() if atom != var}
    if not coefficient or any(var.name in free_vars(atom) for atom in others):
        return set()
    low, high = bounds.of_linear(Linear(others, form.constant))
    if low == -inf or high == inf:
        return set()
    if coefficient > 0:  # true from ceil(-low / c), false below ceil(-high / c)
        return {ceil(-low / coefficient), ceil(-high / coefficient)}
    return {floor(low / -coefficient) + 1, floor(high / -coefficient) + 1}


def _conditions(stmt: Stmt, bounds: Bounds) -> list[tuple[Expr, Bounds]]:
    """All conditions of branches and selects below, with the ranges that hold there; of a loop that may be an
    instruction, that it does not end early.
    """
    found: list[tuple[Expr, Bounds]] = []
    if isinstance(stmt, If):
        found.append((stmt.condition, bounds))
    if isinstance(stmt, For) and stmt.intrinsic and _is_minimum(stmt.extent):
        found.append((binary("ge", stmt.extent.b, stmt.extent.a), bounds))
    for e in expressions(stmt):
        found += [(condition, bounds) for condition in _select_conditions(e)]
    if isinstance(stmt, For):
        bounds = bounds.extended(stmt.var.name, *bounds.of_loop(stmt.start, stmt.extent))
    for part in sub_statements(stmt):
        found += _conditions(part, bounds)
    return found


def _is_minimum(extent: Expr) -> TypeGuard[Binary]:
    return isinstance(extent, Binary) and extent.op == "min"


def _select_conditions(e: Expr) -> list[Expr]:
    found: list[Expr] = []
    rest = [e]
    while rest:
        part = rest.pop()
        if isinstance(part, Select) and isinstance(part.condition, Binary):
            found.append(part.condition)
        rest += reversed(children(part))
    return found
