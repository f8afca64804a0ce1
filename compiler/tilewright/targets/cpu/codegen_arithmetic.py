"""Code for the binary operators of expressions, scalar or vector. No operand makes the machine trap."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import BOOL, DType
from tilewright.errors import CodegenError
from tilewright.expr import COMPARISONS
from tilewright.targets.cpu import intrinsics
from tilewright.targets.cpu.codegen_builder import Function
from tilewright.targets.cpu.codegen_types import Value, compute_type, literal, vector_type

_FLOAT_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_BITWISE = {"and": "and", "or": "or", "xor": "xor"}
_BOOL = {"add": "or", "mul": "and", "max": "or", "min": "and", "ne": "xor", "sub": "xor"}


def widen(function: Function, value: Value, lanes: int) -> Value:
    """The value in every lane; vectors of that length stay as they are."""
    if value.lanes == lanes:
        return value
    if value.lanes:
        raise CodegenError(f"a vector of {value.lanes} lanes meets one of {lanes}")
    if value.ref[0] != "%":
        return replace(value, ref=f"splat ({value.type} {value.ref})", lanes=lanes)
    wide = vector_type(value.type, lanes)

    def first() -> str:
        return f"insertelement {wide} poison, {value.type} {value.ref}, i64 0"

    head = function.op(first())
    zero = f"<{lanes} x i32> zeroinitializer"
    return replace(value, ref=function.op(f"shufflevector {wide} {head}, {wide} poison, {zero}"), lanes=lanes)


def alike(function: Function, *values: Value) -> tuple[Value, ...]:
    """The values with one number of lanes: vectors where any is a vector."""
    lanes = max(value.lanes for value in values)
    return tuple(widen(function, value, lanes) for value in values)


def choose(function: Function, condition: Value, a: Value, b: Value) -> Value:
    """`condition ? a : b`, both sides computed already; the condition may be one for all lanes."""
    a, b = alike(function, a, b)
    if condition.lanes:
        condition, a, b = alike(function, condition, a, b)
    return replace(a, ref=function.op(f"select {condition}, {a}, {b}"), held=a.held and b.held)


def binary(function: Function, op: str, a: Value, b: Value) -> Value:
    """`a op b`. Raises CodegenError for an operator that the type does not have."""
    a, b = alike(function, a, b)
    if op in COMPARISONS:
        return Value(_compare(function, op, a, b), BOOL, a.lanes)
    if op == "pow":
        return power(function, a, b)
    if a.dtype.is_float:
        return _float(function, op, a, b)
    return _boolean(function, op, a, b) if a.dtype == BOOL else _integer(function, op, a, b)


def power(function: Function, a: Value, b: Value) -> Value:
    """a ** b of floats; of integers by squaring is not offered, as no operator asks for it."""
    if not a.dtype.is_float:
        raise CodegenError(f"pow is not defined on {a.dtype}; cast its operands to a float type first")
    name = intrinsics.function(function.module, "pow", compute_type(a.dtype), a.lanes)
    return Value(function.op(f"call {a.type} {name}({a}, {b})"), a.dtype, a.lanes)


def _compare(function: Function, op: str, a: Value, b: Value) -> str:
    if a.dtype.is_float:
        return function.op(f"fcmp {_FLOAT_COMPARE[op]} {a}, {b.ref}")
    sign = "" if op in ("eq", "ne") else "s" if a.dtype.kind == "int" else "u"
    return function.op(f"icmp {sign}{op} {a}, {b.ref}")


def _float(function: Function, op: str, a: Value, b: Value) -> Value:
    if op in _FLOAT:
        contract = "contract " if op in ("add", "sub", "mul") else ""
        return Value(function.op(f"{_FLOAT[op]} {contract}{a}, {b.ref}"), a.dtype, a.lanes)
    if op in ("min", "max"):
        return _float_extremum(function, "olt" if op == "min" else "ogt", a, b)
    if op == "floordiv":
        quotient = function.op(f"fdiv {a}, {b.ref}")
        return intrinsics.rounding(function, "floor", Value(quotient, a.dtype, a.lanes))
    raise CodegenError(f"operator {op} is not defined on {a.dtype}")


def _float_extremum(function: Function, test: str, a: Value, b: Value) -> Value:
    """A machine min or max gives its second operand when either is NaN: a literal, never NaN, goes first."""
    if b.ref[0] != "%":
        a, b = b, a
    better = Value(function.op(f"fcmp {test} {a}, {b.ref}"), BOOL, a.lanes)
    best = choose(function, better, a, b)
    if a.ref[0] != "%":
        return best
    return choose(function, Value(function.op(f"fcmp uno {a}, {a.ref}"), BOOL, a.lanes), a, best)


def _boolean(function: Function, op: str, a: Value, b: Value) -> Value:
    name = _BITWISE.get(op) or _BOOL.get(op)
    if name is None:
        raise CodegenError(f"operator {op} is not defined on bool")
    return Value(function.op(f"{name} {a}, {b.ref}"), BOOL, a.lanes)


def _integer(function: Function, op: str, a: Value, b: Value) -> Value:
    if op in ("add", "sub", "mul") or op in _BITWISE:
        return Value(function.op(f"{op} {a}, {b.ref}"), a.dtype, a.lanes)
    if op in ("min", "max"):
        sign = "s" if a.dtype.kind == "int" else "u"
        return Value(function.same_type(f"{sign}{op}", a.type, a.ref, b.ref), a.dtype, a.lanes)
    if op in ("shl", "shr"):
        return _shift(function, op, a, b)
    if op in ("div", "floordiv", "mod"):
        return divide(function, op, a, b)
    raise CodegenError(f"operator {op} is not defined on {a.dtype}")


def _shift(function: Function, op: str, a: Value, b: Value) -> Value:
    """Shifts by the width or more give what shifting one by one gives: zero, or the sign."""
    bits = a.dtype.bits
    limit = literal(bits - 1, a.dtype, a.lanes)
    name = "shl" if op == "shl" else "ashr" if a.dtype.kind == "int" else "lshr"
    amount = Value(function.same_type("umin", a.type, b.ref, limit.ref), a.dtype, a.lanes)
    shifted = Value(function.op(f"{name} {a}, {amount.ref}"), a.dtype, a.lanes)
    if name == "ashr":
        return shifted
    inside = Value(function.op(f"icmp ule {b}, {limit.ref}"), BOOL, a.lanes)
    return choose(function, inside, shifted, literal(0, a.dtype, a.lanes))


def _constant(value: Value) -> int | None:
    """The number that an integer literal stands for."""
    text = value.ref
    if text.startswith("splat ("):
        text = text[7:-1].rpartition(" ")[2]
    return int(text) if text.lstrip("-").isdigit() else None


def divide(function: Function, op: str, a: Value, b: Value, non_negative: bool = False) -> Value:
    """`div` truncates, `floordiv` and `mod` round down; x / 0 is 0, the least integer / -1 wraps.

    non_negative: neither operand can be negative.
    """
    divisor = _constant(b)
    unsigned = a.dtype.kind == "uint" or non_negative
    if divisor is not None and divisor > 0:
        return _divide_safely(function, op, a, b, divisor, unsigned)
    zero, one = (literal(n, a.dtype, a.lanes) for n in (0, 1))
    odd = Value(function.op(f"icmp eq {b}, {zero.ref}"), BOOL, a.lanes)
    if unsigned:
        result = _divide_safely(function, op, a, choose(function, odd, one, b), None, True)
        return choose(function, odd, zero, result)
    minus = Value(function.op(f"icmp eq {b}, {literal(-1, a.dtype, a.lanes).ref}"), BOOL, a.lanes)
    either = Value(function.op(f"or {odd}, {minus.ref}"), BOOL, a.lanes)
    result = _divide_safely(function, op, a, choose(function, either, one, b), None, False)
    if op != "mod":
        negated = Value(function.op(f"sub {zero}, {a.ref}"), a.dtype, a.lanes)
        result = choose(function, minus, negated, result)
    return choose(function, odd, zero, result)


def _divide_safely(
    function: Function, op: str, a: Value, b: Value, divisor: int | None, unsigned: bool
) -> Value:
    dtype: DType = a.dtype
    lanes = a.lanes
    if divisor is not None and divisor & (divisor - 1) == 0 and op != "div" and not unsigned:
        if op == "mod":
            return Value(function.op(f"and {a}, {literal(divisor - 1, dtype, lanes).ref}"), dtype, lanes)
        amount = literal(divisor.bit_length() - 1, dtype, lanes)
        return Value(function.op(f"ashr {a}, {amount.ref}"), dtype, lanes)
    if unsigned:
        return Value(function.op(f"{'urem' if op == 'mod' else 'udiv'} {a}, {b.ref}"), dtype, lanes)
    quotient = Value(function.op(f"sdiv {a}, {b.ref}"), dtype, lanes)
    if op == "div":
        return quotient
    product = function.op(f"mul {quotient}, {b.ref}")
    rest = Value(function.op(f"sub {a}, {product}"), dtype, lanes)
    zero = literal(0, dtype, lanes)
    mixed = Value(function.op(f"xor {rest}, {b.ref}"), dtype, lanes)
    opposite = function.op(f"icmp slt {mixed}, {zero.ref}")
    inexact = function.op(f"icmp ne {rest}, {zero.ref}")
    wrong = Value(function.op(f"and {vector_type('i1', lanes)} {opposite}, {inexact}"), BOOL, lanes)
    if op == "mod":
        fixed = Value(function.op(f"add {rest}, {b.ref}"), dtype, lanes)
        return choose(function, wrong, fixed, rest)
    lower = Value(function.op(f"add {quotient}, {literal(-1, dtype, lanes).ref}"), dtype, lanes)
    return choose(function, wrong, lower, quotient)
