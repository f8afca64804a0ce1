"""What is known of index expressions: their intervals and their step along one variable.

Intervals let the generator choose 32-bit indices and plain division, which devices without 64-bit dividers care about.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from tilewright.expr import Binary, Const, Expr, Select, Var, free_vars

Interval = tuple[int, int]

_INT32 = (-(2**31), 2**31 - 1)


def fits_int32(interval: Interval | None) -> bool:
    """Whether every value of the interval is an OpenCL `int`; an unknown interval does not fit."""
    return interval is not None and _INT32[0] <= interval[0] and interval[1] <= _INT32[1]


def interval_of(e: Expr, ranges: Mapping[str, Interval]) -> Interval | None:
    """Smallest and largest value of an integer expression (inclusive), or None when nothing is known.

    ranges: intervals of variables by name.
    """
    if isinstance(e, Const):
        return int(e.value), int(e.value)
    if isinstance(e, Var):
        return ranges.get(e.name)
    if isinstance(e, Select):
        sides = [interval_of(e.a, ranges), interval_of(e.b, ranges)]
        known = [side for side in sides if side is not None]
        return (min(k[0] for k in known), max(k[1] for k in known)) if len(known) == 2 else None
    if not isinstance(e, Binary):
        return None
    a, b = interval_of(e.a, ranges), interval_of(e.b, ranges)
    return None if a is None or b is None else _combine(e.op, a, b)


def _combine(op: str, a: Interval, b: Interval) -> Interval | None:
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        corners = [x * y for x, y in product(a, b)]
        return min(corners), max(corners)
    if op == "floordiv" and b[0] > 0:
        corners = [x // y for x, y in product(a, b)]
        return min(corners), max(corners)
    if op == "mod" and b[0] > 0:
        inside = a[0] >= 0 and a[1] < b[0]
        return a if inside else (0, b[1] - 1)
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    return None


def step_of(e: Expr, name: str) -> int | None:
    """By how much an integer expression grows when the variable grows by one; None when that is not one constant."""
    if isinstance(e, Var):
        return int(e.name == name)
    if name not in free_vars(e):
        return 0
    if not isinstance(e, Binary):
        return None
    a, b = step_of(e.a, name), step_of(e.b, name)
    if a is None or b is None:
        return None
    if e.op == "add":
        return a + b
    if e.op == "sub":
        return a - b
    if e.op != "mul":
        return None
    if isinstance(e.b, Const):
        return a * int(e.b.value)
    return b * int(e.a.value) if isinstance(e.a, Const) else None
