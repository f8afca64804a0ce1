"""Loop pass: simplify indices and conditions by the ranges of loop variables, and clean up what becomes
trivial.

1. index arithmetic and comparisons are folded where ranges decide them;
2. branches with a decided condition and loops that never turn vanish, loops of one turn lose their variable;
3. a guard moves out of the loops that it does not depend on: `for i: if c: s` -> `if c: for i: s`;
4. a guard that only limits the loop around it becomes the loop's extent: `for i in 0..16: if i < 8: s` ->
`for i in 0..8: s`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import I64
from tilewright.expr import Const, Expr, Var, binary, const, free_vars, logical_and, minimum, substitute
from tilewright.loops.affine import Bounds, Linear, at_least_zero, from_linear
from tilewright.loops.ir import (
    Allocate,
    Block,
    Evaluate,
    For,
    If,
    Kernel,
    LoopKind,
    Stmt,
    Store,
    While,
    map_expressions,
    seq,
)

NOTHING = Block(())


def simplify_kernel(kernel: Kernel) -> Kernel:
    """The kernel with a simplified body."""
    return kernel.with_body(simplify(kernel.body, Bounds()))


def simplify(stmt: Stmt, bounds: Bounds) -> Stmt:
    """An equal statement, simpler under the given ranges of outer variables."""
    if isinstance(stmt, For):
        return _loop(stmt, bounds)
    if isinstance(stmt, If):
        return _branch(stmt, bounds)
    if isinstance(stmt, Store):
        indices = tuple(bounds.simplify(i) for i in stmt.indices)
        return Store(stmt.buffer, indices, bounds.simplify(stmt.value))
    if isinstance(stmt, Block):
        return seq(*(part for part in (simplify(s, bounds) for s in stmt.body) if part != NOTHING))
    if isinstance(stmt, Allocate):
        body = simplify(stmt.body, bounds)
        return body if body == NOTHING else Allocate(stmt.buffer, body)
    if isinstance(stmt, While):
        return While(bounds.simplify(stmt.condition), simplify(stmt.body, bounds))
    return Evaluate(bounds.simplify(stmt.value)) if isinstance(stmt, Evaluate) else stmt


def _loop(loop: For, bounds: Bounds) -> Stmt:
    start, extent = bounds.simplify(loop.start), bounds.simplify(loop.extent)
    low, high = bounds.of_loop(start, extent)
    if bounds.of(extent)[1] <= 0:
        return NOTHING
    once = extent == const(1) and loop.kind != LoopKind.BOUND
    if once and not isinstance(start, Const):
        return simplify(bind(loop.body, loop.var, start), bounds)
    body = simplify(loop.body, bounds.extended(loop.var.name, low, high))
    if once or body == NOTHING:  # a range of one value is that value
        return body
    loop = replace(loop, start=start, extent=extent, body=body)
    return _lift_guard(loop) if isinstance(body, If) and body.orelse is None else loop


def _lift_guard(loop: For) -> Stmt:
    """Cases 3 and 4."""
    guard = loop.body
    assert isinstance(guard, If)
    outside: list[Expr] = []
    inside: list[Expr] = []
    for term in conjuncts(guard.condition):
        (inside if loop.var.name in free_vars(term) else outside).append(term)
    if outside and loop.kind == LoopKind.BOUND:
        return loop  # a device index has no outside
    kept: list[Expr] = []
    extent = loop.extent
    for term in inside:
        limit = None if loop.kind == LoopKind.BOUND else _limit(term, loop)
        if limit is None:
            kept.append(term)
        else:
            extent = minimum(extent, limit) if not _both_const(extent, limit) else _smaller(extent, limit)
    if not outside and extent is loop.extent:
        return loop
    body = If(logical_and(*kept), guard.then) if kept else guard.then
    result: Stmt = replace(loop, extent=extent, body=body)
    return If(logical_and(*outside), result) if outside else result


def _limit(term: Expr, loop: For) -> Expr | None:
    """The extent that the condition `var < limit` allows a loop that starts at 0; None for other
    conditions.
    """
    forms = at_least_zero(term)
    if forms is None or len(forms) != 1 or loop.start != const(0):
        return None
    form = forms[0]
    if form.terms.get(loop.var) != -1:
        return None
    rest = {atom: c for atom, c in form.terms.items() if atom != loop.var}
    if any(loop.var.name in free_vars(atom) for atom in rest):
        return None
    if rest and loop.kind in (LoopKind.VECTORIZED, LoopKind.UNROLLED):
        return None  # their extents must stay constant
    return from_linear(Linear(rest, form.constant + 1))


def _both_const(a: Expr, b: Expr) -> bool:
    return isinstance(a, Const) and isinstance(b, Const)


def _smaller(a: Expr, b: Expr) -> Expr:
    assert isinstance(a, Const)
    assert isinstance(b, Const)
    return a if a.value <= b.value else b


def _branch(branch: If, bounds: Bounds) -> Stmt:
    condition = bounds.simplify(branch.condition)
    if isinstance(condition, Const):
        chosen = branch.then if condition.value else branch.orelse
        return NOTHING if chosen is None else simplify(chosen, bounds)
    then = simplify(branch.then, bounds)
    orelse = None if branch.orelse is None else simplify(branch.orelse, bounds)
    if orelse is None and isinstance(then, If) and then.orelse is None:
        return If(binary("and", condition, then.condition), then.then)
    if then == NOTHING and orelse in (None, NOTHING):
        return NOTHING
    return If(condition, then, None if orelse == NOTHING else orelse)


def conjuncts(condition: Expr) -> list[Expr]:
    """The terms of a conjunction."""
    if getattr(condition, "op", "") == "and":
        return conjuncts(condition.a) + conjuncts(condition.b)  # type: ignore[attr-defined]
    return [condition]


def bind(stmt: Stmt, var: Var, value: Expr) -> Stmt:
    """The statement with a variable replaced."""
    assert value.dtype == I64
    return map_expressions(stmt, lambda e: substitute(e, {var.name: value}))
