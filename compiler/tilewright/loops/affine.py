"""Index arithmetic: linear forms, value ranges, and the simplifications they allow.

A linear form is a sum of coefficient * atom plus a constant; an atom is a variable or an index expression
that is not linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd, inf

from tilewright.dtypes import BOOL, I64
from tilewright.expr import (
    COMPARISONS,
    Binary,
    Const,
    Expr,
    Select,
    Var,
    add,
    binary,
    children,
    const,
    mul,
    rebuild,
    select,
)

Range = tuple[float, float]  # inclusive; infinite where unknown
EVERYTHING: Range = (-inf, inf)
_LINEAR = ("add", "sub", "mul")


@dataclass(frozen=True)
class Linear:
    """sum(coefficient * atom) + constant."""

    terms: dict[Expr, int] = field(default_factory=dict)
    constant: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        if not factor:
            return Linear()
        return Linear({a: c * factor for a, c in self.terms.items()}, self.constant * factor)

    @property
    def is_constant(self) -> bool:
        return not self.terms


def linear(e: Expr) -> Linear:
    """The linear form of an i64 expression."""
    if isinstance(e, Const):
        return Linear({}, int(e.value))
    if isinstance(e, Var):
        return Linear({e: 1})
    if isinstance(e, Binary):
        if e.op == "add":
            return linear(e.a).plus(linear(e.b))
        if e.op == "sub":
            return linear(e.a).plus(linear(e.b), -1)
        if e.op == "mul":
            a, b = linear(e.a), linear(e.b)
            if b.is_constant:
                return a.times(b.constant)
            if a.is_constant:
                return b.times(a.constant)
    return Linear({e: 1})


def from_linear(form: Linear) -> Expr:
    """The expression of a linear form, terms in order of first appearance."""
    result: Expr = const(0)
    for atom, coefficient in form.terms.items():
        result = add(result, mul(atom, const(coefficient)))
    return add(result, const(form.constant))


def rejoined(form: Linear) -> Linear:
    """The same form with every c * n * (x // n) + c * (x % n) as c * x."""
    for atom, coefficient in form.terms.items():
        if not (isinstance(atom, Binary) and atom.op == "floordiv" and isinstance(atom.b, Const)):
            continue
        rest, n = binary("mod", atom.a, atom.b), int(atom.b.value)
        if rest in form.terms and form.terms[rest] * n == coefficient:
            others = {a: c for a, c in form.terms.items() if a not in (atom, rest)}
            whole = linear(atom.a).times(coefficient // n)
            return rejoined(Linear(others, form.constant).plus(whole))
    return form


class Bounds:
    """Known inclusive ranges of variables, and what follows from them."""

    def __init__(self, ranges: Mapping[str, Range] | None = None) -> None:
        self.ranges = dict(ranges or {})

    def extended(self, name: str, low: float, high: float) -> Bounds:
        return Bounds({**self.ranges, name: (low, high)})

    def of(self, e: Expr) -> Range:
        """An inclusive range that holds the value of an i64 expression."""
        if isinstance(e, Const):
            return (e.value, e.value)
        if isinstance(e, Var):
            return self.ranges.get(e.name, EVERYTHING)
        if isinstance(e, Binary) and e.op in _LINEAR:
            form = linear(e)
            if Linear({e: 1}) != form:
                return self.of_linear(form)
        if isinstance(e, Binary):
            return self._of_binary(e)
        if isinstance(e, Select):
            (a, b), (c, d) = self.of(e.a), self.of(e.b)
            return (min(a, c), max(b, d))
        return EVERYTHING

    def of_linear(self, form: Linear) -> Range:
        low: float = form.constant
        high: float = form.constant
        for atom, coefficient in form.terms.items():
            a, b = self.of(atom)
            low += coefficient * (a if coefficient > 0 else b)
            high += coefficient * (b if coefficient > 0 else a)
        return low, high

    def _of_binary(self, e: Binary) -> Range:
        (a, b), (c, d) = self.of(e.a), self.of(e.b)
        if e.op == "min":
            return min(a, c), min(b, d)
        if e.op == "max":
            return max(a, c), max(b, d)
        if e.op == "floordiv" and c == d and c > 0:
            return (a // c if a > -inf else a), (b // c if b < inf else b)
        if e.op == "mod" and c == d and c > 0:
            return (a, b) if a >= 0 and b < c else (0, c - 1)
        if e.op == "mul" and -inf < min(a, c) and max(b, d) < inf:
            products = [a * c, a * d, b * c, b * d]
            return min(products), max(products)
        return EVERYTHING

    def of_loop(self, start: Expr, extent: Expr) -> Range:
        """The range of the variable of a loop over [start, start + extent)."""
        low, high = self.of(start)
        return low, high + self.of(extent)[1] - 1

    def simplify(self, e: Expr) -> Expr:
        """An equal expression, simpler under these ranges. Values other than i64 and bool are left as they
        are.
        """
        if isinstance(e, Const):
            return e
        if isinstance(e, Var):
            low, high = self.ranges.get(e.name, EVERYTHING)
            return const(int(low)) if low == high else e
        if isinstance(e, Binary) and e.op in _LINEAR and e.dtype == I64:
            return from_linear(self._linear(e))
        parts = children(e)
        if parts:
            new = tuple(self.simplify(part) for part in parts)
            if any(n is not o for n, o in zip(new, parts, strict=True)):
                e = rebuild(e, new)
        if isinstance(e, Binary) and e.a.dtype == I64:
            return self._simplify_index(e)
        if isinstance(e, Select) and isinstance(e.condition, Const):
            return select(e.condition, e.a, e.b)
        return e

    def _linear(self, e: Expr) -> Linear:
        """The linear form of an i64 expression whose atoms are simplified."""
        if not isinstance(e, Binary) or e.op not in _LINEAR:
            return linear(self.simplify(e))
        a, b = self._linear(e.a), self._linear(e.b)
        if e.op != "mul":
            return a.plus(b, 1 if e.op == "add" else -1)
        if b.is_constant:
            return a.times(b.constant)
        if a.is_constant:
            return b.times(a.constant)
        return linear(rebuild(e, (from_linear(a), from_linear(b))))

    def _simplify_index(self, e: Binary) -> Expr:
        if e.op in _LINEAR:
            return from_linear(linear(e))
        if e.op in ("floordiv", "mod") and isinstance(e.b, Const) and e.b.value > 0:
            return self._divide(e.op, linear(e.a), int(e.b.value))
        if e.op in ("min", "max"):
            (a, b), (c, d) = self.of(e.a), self.of(e.b)
            if b <= c:
                return e.a if e.op == "min" else e.b
            if d <= a:
                return e.b if e.op == "min" else e.a
            return e
        return self._compare(e) if e.op in COMPARISONS else e

    def _divide(self, op: str, form: Linear, divisor: int) -> Expr:
        whole = Linear(
            {a: c // divisor for a, c in form.terms.items() if c % divisor == 0}, form.constant // divisor
        )
        rest = Linear({a: c for a, c in form.terms.items() if c % divisor}, form.constant % divisor)
        low, high = self.of_linear(rest)
        if low > -inf and high < inf and low // divisor == high // divisor:
            shift = int(low // divisor)
            if op == "floordiv":
                return from_linear(Linear(whole.terms, whole.constant + shift))
            return from_linear(Linear(rest.terms, rest.constant - shift * divisor))
        nested = self._nested(op, rest, divisor)
        if nested is not None:
            return add(from_linear(whole), nested) if op == "floordiv" else nested
        coarse = self._coarse(op, rest, divisor)
        if coarse is not None:
            return add(from_linear(whole), coarse) if op == "floordiv" else coarse
        remainder = binary(op, from_linear(rest), const(divisor))
        return add(from_linear(whole), remainder) if op == "floordiv" else remainder

    def _nested(self, op: str, rest: Linear, divisor: int) -> Expr | None:
        """(x // a) // b is x // (a * b)."""
        if op != "floordiv" or rest.constant or len(rest.terms) != 1:
            return None
        ((atom, coefficient),) = rest.terms.items()
        if coefficient != 1 or not isinstance(atom, Binary) or atom.op != "floordiv":
            return None
        if not isinstance(atom.b, Const):
            return None
        return self._divide("floordiv", linear(atom.a), int(atom.b.value) * divisor)

    def _coarse(self, op: str, rest: Linear, divisor: int) -> Expr | None:
        """(x * g + r) // (g * q) is x // q, and % gives (x % q) * g + r, where 0 <= r < g."""
        for step in sorted({gcd(c, divisor) for c in rest.terms.values()} - {1}, reverse=True):
            large = Linear(
                {a: c // step for a, c in rest.terms.items() if c % step == 0}, rest.constant // step
            )
            small = Linear({a: c for a, c in rest.terms.items() if c % step}, rest.constant % step)
            low, high = self.of_linear(small)
            if low < 0 or high >= step:
                continue
            quotient = self._divide(op, large, divisor // step)
            return quotient if op == "floordiv" else add(mul(quotient, const(step)), from_linear(small))
        return None

    def _compare(self, e: Binary) -> Expr:
        difference = linear(e.a).plus(linear(e.b), -1)
        low, high = self.of_linear(difference)
        verdicts = {
            "lt": (high < 0, low >= 0),
            "le": (high <= 0, low > 0),
            "gt": (low > 0, high <= 0),
            "ge": (low >= 0, high < 0),
            "eq": (low == high == 0, low > 0 or high < 0),
            "ne": (low > 0 or high < 0, low == high == 0),
        }
        true, false = verdicts[e.op]
        return const(bool(true), BOOL) if true or false else e


def at_least_zero(e: Expr) -> list[Linear] | None:
    """A condition as a conjunction of linear forms that must be >= 0; None when it is not of that kind."""
    if not isinstance(e, Binary):
        return [] if isinstance(e, Const) and e.value else None
    if e.op == "and":
        a, b = at_least_zero(e.a), at_least_zero(e.b)
        return None if a is None or b is None else a + b
    if e.a.dtype != I64 or e.op not in ("lt", "le", "gt", "ge"):
        return None
    difference = linear(e.a).plus(linear(e.b), -1)  # a - b
    if e.op in ("lt", "le"):
        difference = difference.times(-1)
    return [Linear(difference.terms, difference.constant - (e.op in ("lt", "gt")))]
