"""What is known of index expressions: whether they fit 32 bits, and their step along one variable.

It lets the generator choose 32-bit indices and plain division: GPUs have no 64-bit dividers.
"""

from __future__ import annotations

from tilewright.expr import Expr, Var, free_vars
from tilewright.loops.affine import Range, linear


def fits_int32(interval: Range) -> bool:
    """Whether every value of an inclusive range is an OpenCL `int`."""
    return interval[0] >= -(2**31) and interval[1] < 2**31


def step_of(e: Expr, name: str) -> int | None:
    """By how much an index grows with the variable; None when that is not one constant."""
    form = linear(e)
    if any(name in free_vars(atom) for atom in form.terms if atom != Var(name)):
        return None
    return form.terms.get(Var(name), 0)
