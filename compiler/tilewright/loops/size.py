"""How much code a loop program becomes once its unrolled loops are written out."""

from __future__ import annotations

from tilewright.expr import Const, Expr, Read, children
from tilewright.loops.affine import linear
from tilewright.loops.ir import For, LoopKind, Stmt, Store, While, expressions, sub_statements

# what vectors are loaded from in one or two instructions; any other step takes one load a lane
_STEPS = (0, 1, 2, -1)


def written_out(stmt: Stmt, lane: str = "", lanes: int = 0) -> int:
    """Stores and loops, each turn of an unrolled loop by itself. A vector gathered lane by lane counts as
    half its lanes.

    lane, lanes: variable and extent of the vectorised loop around.
    """
    if isinstance(stmt, For) and stmt.kind == LoopKind.VECTORIZED and isinstance(stmt.extent, Const):
        lane, lanes = stmt.var.name, int(stmt.extent.value)
    inner = sum(written_out(part, lane, lanes) for part in sub_statements(stmt))
    if isinstance(stmt, For) and stmt.kind == LoopKind.UNROLLED and isinstance(stmt.extent, Const):
        return int(stmt.extent.value) * inner
    return written_out_alone(stmt, lane, lanes) + inner


def written_out_alone(stmt: Stmt, lane: str = "", lanes: int = 0) -> int:
    """`written_out` of a statement without the statements in it."""
    if not isinstance(stmt, (Store, While)) and not _is_loop(stmt):
        return 0
    gathered = sum(gathers(e, lane) for e in expressions(stmt)) if lane else 0
    return 1 + gathered * lanes // 2


def _is_loop(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind != LoopKind.VECTORIZED


def gathers(e: Expr, lane: str) -> int:
    """Reads whose step from lane to lane is not a small constant in one index alone."""
    found = sum(gathers(part, lane) for part in children(e))
    if not isinstance(e, Read):
        return found
    moving = (index for index in e.indices if _depends(index, lane))
    steps = [step for index in moving if (step := _step(index, lane)) != 0]
    return found + (len(steps) > 1 or any(step not in _STEPS for step in steps))


def _step(index: Expr, lane: str) -> int | None:
    """What one lane adds to an index; None when that is not linear."""
    form = linear(index)
    total = 0
    for atom, factor in form.terms.items():
        if getattr(atom, "name", None) == lane:
            total += factor
        elif any(_depends(part, lane) for part in children(atom)):
            return None
    return total


def _depends(e: Expr, lane: str) -> bool:
    return getattr(e, "name", None) == lane or any(_depends(part, lane) for part in children(e))
