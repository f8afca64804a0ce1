"""Scalar expressions: the common language of tensor expressions and loop programs.

Nodes are immutable and compare by value. The constructors below (`add`, `mul`, ...) fold constants and the
usual
identities on integers; floating-point arithmetic is only folded between constants of equal type, so that it
never changes a value. Indices are i64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.dtypes import BOOL, I64, DType

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class Source(Protocol):
    """What a Read reads: a tensor of an expression, or a buffer of a loop program."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class Expr:
    """Base of all scalar expressions. `dtype` is the type of the value."""

    __slots__ = ()
    dtype: DType

    def __add__(self, other: ExprLike) -> Expr:
        return add(self, wrap(other, self.dtype))

    def __radd__(self, other: ExprLike) -> Expr:
        return add(wrap(other, self.dtype), self)

    def __sub__(self, other: ExprLike) -> Expr:
        return sub(self, wrap(other, self.dtype))

    def __rsub__(self, other: ExprLike) -> Expr:
        return sub(wrap(other, self.dtype), self)

    def __mul__(self, other: ExprLike) -> Expr:
        return mul(self, wrap(other, self.dtype))

    def __rmul__(self, other: ExprLike) -> Expr:
        return mul(wrap(other, self.dtype), self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("div", self, wrap(other, self.dtype))

    def __floordiv__(self, other: ExprLike) -> Expr:
        return floordiv(self, wrap(other, self.dtype))

    def __mod__(self, other: ExprLike) -> Expr:
        return mod(self, wrap(other, self.dtype))

    def __lt__(self, other: ExprLike) -> Expr:
        return binary("lt", self, wrap(other, self.dtype))

    def __le__(self, other: ExprLike) -> Expr:
        return binary("le", self, wrap(other, self.dtype))

    def __gt__(self, other: ExprLike) -> Expr:
        return binary("gt", self, wrap(other, self.dtype))

    def __ge__(self, other: ExprLike) -> Expr:
        return binary("ge", self, wrap(other, self.dtype))


ExprLike = Expr | int | float | bool


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A named scalar: a loop variable or a parameter. Equal names are equal variables."""

    name: str
    dtype: DType = I64


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A literal. value: int, float or bool, already exact in dtype."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`a op b` on operands of one type; `div` is true division, `floordiv` and `mod` round towards minus
    infinity.

    `min` and `max` of floats hand NaN on.
    """

    op: str
    a: Expr
    b: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A math or target intrinsic, e.g. `exp`, `tanh`, `sqrt`, `erf`, `floor`, `fma`, `isnan`."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """`condition ? a : b`. Only the chosen side is evaluated, so it may guard a read that would leave its
    source.
    """

    condition: Expr
    a: Expr
    b: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """Conversion as ONNX Cast: float to int truncates, to bool compares with zero."""

    a: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Read(Expr):
    """One element of a tensor (logical indices) or of a buffer (memory indices)."""

    source: Any
    indices: tuple[Expr, ...]
    dtype: DType


def const(value: int | float | bool, dtype: DType = I64) -> Const:
    """A literal; floats stand for themselves, integers are converted to the type's kind."""
    if dtype.is_float:
        return Const(float(value), dtype)
    if dtype == BOOL:
        return Const(bool(value), dtype)
    return Const(int(value), dtype)


def wrap(value: ExprLike, dtype: DType = I64) -> Expr:
    """An expression as it is; a Python number as a literal of dtype."""
    return value if isinstance(value, Expr) else const(value, dtype)


def _is(e: Expr, value: int) -> bool:
    return isinstance(e, Const) and not e.dtype.is_float and e.value == value


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}


def binary(op: str, a: Expr, b: Expr) -> Expr:
    """`a op b`; integer and boolean constants are folded. Both operands must have one type."""
    if a.dtype != b.dtype:
        raise TypeError(f"{op}: operands have types {a.dtype} and {b.dtype}")
    dtype = BOOL if op in COMPARISONS else a.dtype
    # narrower integers would have to wrap, floats to round
    exact = op in _FOLD and dtype in (BOOL, I64) and not a.dtype.is_float
    divides = op in ("floordiv", "mod")
    if isinstance(a, Const) and isinstance(b, Const) and exact and not (divides and b.value == 0):
        return const(_FOLD[op](a.value, b.value), dtype)
    if op == "and" and a.dtype == BOOL:
        if _is(a, 1):
            return b
        if _is(b, 1) or _is(a, 0):
            return a
        if _is(b, 0):
            return b
    if op == "or" and a.dtype == BOOL:
        if _is(a, 0):
            return b
        if _is(b, 0) or _is(a, 1):
            return a
        if _is(b, 1):
            return b
    return Binary(op, a, b, dtype)


def add(a: Expr, b: Expr) -> Expr:
    """a + b; integer zero vanishes and constants gather on the right."""
    if _is(a, 0):
        return b
    if _is(b, 0):
        return a
    if (
        isinstance(b, Const)
        and b.dtype == I64
        and isinstance(a, Binary)
        and a.op == "add"
        and isinstance(a.b, Const)
    ):
        return add(a.a, binary("add", a.b, b))
    return binary("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """a - b; integer zero vanishes, a constant becomes an addition."""
    if _is(b, 0):
        return a
    if isinstance(b, Const) and b.dtype == I64:
        return add(a, const(-b.value))
    return binary("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """a * b; integer one and zero fold."""
    if _is(a, 1) or _is(b, 0):
        return b
    if _is(b, 1) or _is(a, 0):
        return a
    return binary("mul", a, b)


def floordiv(a: Expr, b: Expr) -> Expr:
    """Floor division of integers."""
    return a if _is(b, 1) else binary("floordiv", a, b)


def mod(a: Expr, b: Expr) -> Expr:
    """Remainder with the sign of the divisor."""
    return const(0, a.dtype) if _is(b, 1) and a.dtype == I64 else binary("mod", a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    return a if a == b else binary("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    return a if a == b else binary("max", a, b)


def logical_and(*terms: Expr) -> Expr:
    """Conjunction; of nothing it is true."""
    result: Expr = const(True, BOOL)
    for term in terms:
        result = binary("and", result, term)
    return result


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """`condition ? a : b`; a constant condition chooses at once. Both sides must have one type."""
    if a.dtype != b.dtype:
        raise TypeError(f"select: sides have types {a.dtype} and {b.dtype}")
    if isinstance(condition, Const):
        return a if condition.value else b
    return a if a == b else Select(condition, a, b, a.dtype)


def cast(a: Expr, dtype: DType) -> Expr:
    """Conversion; to its own type it vanishes."""
    return a if a.dtype == dtype else Cast(a, dtype)


def call(name: str, *args: Expr, dtype: DType | None = None) -> Expr:
    """A math or target intrinsic; its type is that of the first argument unless given."""
    return Call(name, tuple(args), dtype or args[0].dtype)


def read(source: Source, indices: Sequence[ExprLike]) -> Expr:
    """One element of a tensor or a buffer."""
    return Read(source, tuple(wrap(i) for i in indices), source.dtype)


_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Binary: lambda e: (e.a, e.b),
    Read: lambda e: e.indices,
    Call: lambda e: e.args,
    Select: lambda e: (e.condition, e.a, e.b),
    Cast: lambda e: (e.a,),
}


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions."""
    parts = _CHILDREN.get(type(e))
    return () if parts is None else parts(e)


def rebuild(e: Expr, parts: Sequence[Expr]) -> Expr:
    """The same node over other sub-expressions, folded again."""
    if isinstance(e, Binary):
        special = _REBUILD.get(e.op)
        return special(*parts) if special else binary(e.op, parts[0], parts[1])
    if isinstance(e, Read):
        return Read(e.source, tuple(parts), e.dtype)
    if isinstance(e, Call):
        return Call(e.name, tuple(parts), e.dtype)
    if isinstance(e, Select):
        return select(*parts)
    if isinstance(e, Cast):
        return cast(parts[0], e.dtype)
    return e


_REBUILD = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
}


def rewrite(e: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Bottom-up rewriting: `rule` sees each node after its parts; None keeps the node."""
    parts = children(e)
    if parts:
        new = tuple(rewrite(part, rule) for part in parts)
        if any(n is not p for n, p in zip(new, parts, strict=True)):
            e = rebuild(e, new)
    result = rule(e)
    return e if result is None else result


def substitute(e: Expr, bindings: Mapping[str, Expr]) -> Expr:
    """Replace variables by name."""
    if isinstance(e, Const):  # leaves first, then what most nodes are: kernels have many thousands of them
        return e
    if isinstance(e, Var):
        return bindings.get(e.name, e)
    if isinstance(e, Binary):
        a, b = substitute(e.a, bindings), substitute(e.b, bindings)
        return e if a is e.a and b is e.b else rebuild(e, (a, b))
    parts = children(e)
    new = [substitute(part, bindings) for part in parts]
    for old, replaced in zip(parts, new, strict=True):
        if replaced is not old:
            return rebuild(e, new)
    return e


def free_vars(e: Expr) -> set[str]:
    """Names of all variables in the expression."""
    if isinstance(e, Var):
        return {e.name}
    return set().union(*(free_vars(part) for part in children(e)))


def reads_of(e: Expr) -> list[Read]:
    """All reads, outermost first, in order."""
    found: list[Read] = []
    rest = [e]
    while rest:
        part = rest.pop()
        if isinstance(part, Read):
            found.append(part)
        rest += reversed(children(part))
    return found
