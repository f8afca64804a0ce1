"""Long sums in blocks: the rounding error of a sum grows with its length, and that of two short ones less."""

from __future__ import annotations

from math import prod

from tilewright.schedule.schedule import Schedule
from tilewright.tensor.ir import Reduce

TERMS = 64  # of a block


def block_sums(schedule: Schedule, sums: str) -> str | None:
    """Split a long floating-point sum into blocks of at most TERMS terms, which are then added up.

    Returns the new stage, which sums one block; None where the sum is short, or is none. Whole
    leading axes become blocks as long as a block would be too long; then the last axis is cut evenly.
    """
    stage = schedule.state.stage(sums).stage
    body, reduced = stage.bodies[0], stage.reduce_axes
    terms = prod(axis.extent for axis in reduced)
    if (
        not isinstance(body, Reduce)
        or body.reducer.name != "sum"
        or not body.dtype.is_float
        or terms <= TERMS
    ):
        return None
    whole: list[str] = []
    for axis in reduced[:-1]:
        if terms <= TERMS:
            break
        whole.append(axis.name)
        terms //= axis.extent
    rest = terms // reduced[-1].extent
    factor = _even(reduced[-1].extent, max(1, TERMS // rest))
    return schedule.rfactor(sums, whole, reduced[-1].name, factor)


def _even(extent: int, limit: int) -> int:
    """The largest divisor up to the limit; the limit where that one is much smaller, with a guarded tail."""
    divisor = max(n for n in range(1, min(limit, extent) + 1) if extent % n == 0)
    return divisor if 4 * divisor >= min(limit, extent) else limit
