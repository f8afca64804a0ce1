"""The code of intrinsic calls: one machine instruction where there is one, functions of our own otherwise.

No call of a C library remains in an object: images are mapped without a linker. Accuracy: f32 within 2 ulp,
f64 within 1e-15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tilewright.arithmetic import SMALLEST_NORMAL
from tilewright.dtypes import BOOL, DType
from tilewright.errors import CodegenError
from tilewright.targets.cpu import (
    math_error,
    math_exponential,
    math_inverse,
    math_logarithm,
    math_remainder,
    math_rounding,
    math_trigonometric,
)
from tilewright.targets.cpu.codegen_builder import Function, Module
from tilewright.targets.cpu.codegen_types import (
    Value,
    compute_type,
    literal,
    memory_type,
    suffix,
    vector_type,
)
from tilewright.targets.cpu.math_writer import MathWriter

_UNARY: Mapping[str, Callable[[MathWriter, str], str]] = {
    "exp": math_exponential.exp,
    "expm1": math_exponential.expm1,
    "tanh": math_exponential.tanh,
    "log": math_logarithm.log,
    "erf": math_error.erf,
    "sin": math_trigonometric.sin,
    "cos": math_trigonometric.cos,
    "atan": math_inverse.atan,
    "floor": math_rounding.floor,
    "ceil": math_rounding.ceil,
    "round": math_rounding.round_even,
    "trunc": math_rounding.trunc,
}
_ROUNDING = ("floor", "ceil", "round", "trunc")
NAMES = (*_UNARY, "sqrt", "rsqrt", "abs", "fma", "pow", "fmod", "isnan", "popcount", "bitcast", "flush")


def function(module: Module, name: str, element: str, lanes: int) -> str:
    """`@name` of a math function on `lanes` floats (0: a scalar) of type `float` or `double`."""
    symbol = f"tilewright.{name}.{suffix(vector_type(element, lanes))}"

    def write() -> str:
        writer = MathWriter(module, element, lanes)
        if name == "pow":
            return writer.render(symbol, ("%x", "%y"), math_logarithm.power(writer, "%x", "%y"))
        return writer.render(symbol, ("%x",), _UNARY[name](writer, "%x"))

    return module.helper(symbol, write)


def rounding(target: Function, name: str, value: Value) -> Value:
    """floor, ceil, round (half to even) or trunc."""
    callee = function(target.module, name, value.type.rpartition(" ")[2].rstrip(">"), value.lanes)
    return Value(target.op(f"call {value.type} {callee}({value})"), value.dtype, value.lanes)


def multiply_add(target: Function, a: Value, b: Value, c: Value) -> Value:
    """a * b + c of floats, fused where the machine has that operation."""
    from tilewright.targets.cpu.codegen_arithmetic import alike  # which calls functions of this module

    a, b, c = alike(target, a, b, c)
    return Value(target.same_type("fmuladd", a.type, a.ref, b.ref, c.ref), a.dtype, a.lanes)


def call(target: Function, name: str, arguments: Sequence[Value], dtype: DType) -> Value:
    """The value of an intrinsic call. Raises CodegenError for names or types without code."""
    first = arguments[0]
    if name == "bitcast":
        return _same_bits(target, first, dtype)
    if name in ("abs", "isnan", "popcount"):
        return _simple(target, name, first, dtype)
    if name not in NAMES:
        raise CodegenError(f"intrinsic '{name}' has no code on the CPU; known: {', '.join(NAMES)}")
    if not first.dtype.is_float:
        if name in _ROUNDING:
            return first
        raise CodegenError(
            f"intrinsic '{name}' is not defined on {first.dtype}; cast its operand to a float type"
        )
    if name == "flush":
        return _flushed(target, first)
    if name == "fma":
        return multiply_add(target, *arguments)
    if name == "pow":
        from tilewright.targets.cpu.codegen_arithmetic import binary

        return binary(target, "pow", *arguments)
    if name == "fmod":
        return _remainder(target, *arguments)
    if name in ("sqrt", "rsqrt"):
        root = Value(target.same_type("sqrt", first.type, first.ref), dtype, first.lanes)
        if name == "sqrt":
            return root
        one = literal(1.0, dtype, first.lanes)
        return Value(target.op(f"fdiv {one}, {root.ref}"), dtype, first.lanes)
    return rounding(target, name, first)


def _same_bits(target: Function, value: Value, dtype: DType) -> Value:
    """What memory would hold of the value, read as another type of the same width."""
    from tilewright.targets.cpu.codegen_casts import from_memory, to_memory

    if value.dtype.bits != dtype.bits:
        raise CodegenError(f"bitcast from {value.dtype} to {dtype}, which have different widths")
    held, wanted = (vector_type(memory_type(t), value.lanes) for t in (value.dtype, dtype))
    ref = to_memory(target, value)
    if held != wanted:
        ref = target.op(f"bitcast {held} {ref} to {wanted}")
    return from_memory(target, ref, dtype, value.lanes)


def _flushed(target: Function, value: Value) -> Value:
    """Zero, of the same sign, for a denormal number of float32."""
    from tilewright.targets.cpu.codegen_arithmetic import binary, choose

    limit, nothing = (literal(number, value.dtype, value.lanes) for number in (SMALLEST_NORMAL, 0.0))
    size = replace(value, ref=target.same_type("fabs", value.type, value.ref))
    return choose(target, binary(target, "lt", size, limit), binary(target, "mul", value, nothing), value)


def _remainder(target: Function, a: Value, b: Value) -> Value:
    from tilewright.targets.cpu.codegen_arithmetic import alike

    a, b = alike(target, a, b)
    callee = math_remainder.fmod(target.module, compute_type(a.dtype), a.lanes)
    return Value(target.op(f"call {a.type} {callee}({a}, {b})"), a.dtype, a.lanes)


def _simple(target: Function, name: str, value: Value, dtype: DType) -> Value:
    lanes = value.lanes
    if name == "isnan":
        if not value.dtype.is_float:
            return literal(False, BOOL, lanes)
        return Value(target.op(f"fcmp uno {value}, {value.ref}"), BOOL, lanes)
    if name == "popcount":
        if not value.dtype.is_integer:
            raise CodegenError(f"intrinsic 'popcount' is not defined on {value.dtype}")
        return Value(target.same_type("ctpop", value.type, value.ref), dtype, lanes)
    if value.dtype.is_float:
        return Value(target.same_type("fabs", value.type, value.ref), dtype, lanes)
    if value.dtype.kind != "int":
        return value
    callee = target.module.intrinsic(f"llvm.abs.{suffix(value.type)}", value.type, (value.type, "i1"))
    return Value(target.op(f"call {value.type} {callee}({value}, i1 false)"), dtype, lanes)
