"""Conversions between element types, and between memory and registers.

Half-width floats round to nearest even.
"""

from __future__ import annotations

from tilewright.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, U32, U64, DType
from tilewright.targets.cpu.codegen_builder import Function
from tilewright.targets.cpu.codegen_types import Value, compute_type, literal, memory_type, vector_type

# By (from, to, lanes): LLVM's name of the instruction, and the features that bring it.
_TRUNCATIONS = {
    (F32, I32, 4): ("llvm.x86.sse2.cvttps2dq", ("sse2",)),
    (F32, I32, 8): ("llvm.x86.avx.cvtt.ps2dq.256", ("avx",)),
    (F32, I32, 16): ("llvm.x86.avx512.mask.cvttps2dq.512", ("avx512f",)),
}
_NARROWS, _NARROWED = ("avx512bf16", "avx512vl"), (8, 16)  # who rounds to bf16 in one instruction; its lanes


def from_memory(function: Function, ref: str, dtype: DType, lanes: int) -> Value:
    """The computing form of what was loaded."""
    stored = vector_type(memory_type(dtype), lanes)
    if dtype == BOOL:
        return Value(function.op(f"trunc {stored} {ref} to {vector_type('i1', lanes)}"), BOOL, lanes)
    if dtype == BF16:
        return Value(_shifted_left(function, ref, lanes), dtype, lanes, held=True)
    if dtype == F16:
        return Value(_from_half(function, ref, lanes), dtype, lanes, held=True)
    return Value(ref, dtype, lanes)


def to_memory(function: Function, value: Value) -> str:
    """The operand, of the memory type, that stands for the value in memory."""
    lanes, dtype = value.lanes, value.dtype
    stored = vector_type(memory_type(dtype), lanes)
    if dtype == BOOL:
        return function.op(f"zext {value} to {stored}")
    if dtype == BF16:
        return _upper_half(function, value) if value.held else _to_bfloat(function, value)
    if dtype == F16:
        return _to_half(function, value)
    return value.ref


def from_register(function: Function, ref: str, dtype: DType, lanes: int) -> Value:
    """The computing form of what a variable of registers holds."""
    if dtype in (F16, BF16):
        return Value(ref, dtype, lanes, held=True)
    return from_memory(function, ref, dtype, lanes)


def to_register(function: Function, value: Value) -> str:
    """The operand, of the register type, that stands for the value in a variable of registers."""
    if value.dtype in (F16, BF16):
        return value.ref if value.held else rounded(function, value).ref
    return to_memory(function, value)


def cast(function: Function, value: Value, dtype: DType) -> Value:
    """As ONNX Cast: float to int truncates, to bool compares with zero, to a narrower int wraps."""
    source, lanes = value.dtype, value.lanes
    if source == dtype:
        return value
    if dtype == BOOL:
        test = "fcmp une" if source.is_float else "icmp ne"
        return Value(function.op(f"{test} {value}, {literal(0, source, lanes).ref}"), BOOL, lanes)
    if dtype.is_float:
        return _to_float(function, value, dtype)
    target = vector_type(compute_type(dtype), lanes)
    if source.is_float:
        return _truncated(function, value, dtype)
    if source.bits == dtype.bits and source != BOOL:
        return Value(value.ref, dtype, lanes)
    if source != BOOL and source.bits > dtype.bits:
        return Value(function.op(f"trunc {value} to {target}"), dtype, lanes)
    extend = "sext" if source.kind == "int" else "zext"
    return Value(function.op(f"{extend} {value} to {target}"), dtype, lanes)


def flushed_to_bf16(function: Function, value: Value) -> Value | None:
    """The cast of `flush(value)` as one instruction, with lanes to spare or not; None where there is none."""
    lanes = value.lanes
    whole = next((n for n in _NARROWED if n >= lanes > 1), 0)
    if value.dtype != F32 or not whole or not all(map(function.module.machine.has, _NARROWS)):
        return None
    wide, narrow = vector_type("float", whole), vector_type("bfloat", whole)
    operand = function.resized(value.type, value.ref, lanes, whole)
    found = function.call(f"llvm.x86.avx512bf16.cvtneps2bf16.{F32.bits * whole}", narrow, [(wide, operand)])
    raw = function.op(f"bitcast {narrow} {found} to <{whole} x i16>")
    return from_memory(function, function.resized(f"<{whole} x i16>", raw, whole, lanes), BF16, lanes)


def _truncated(function: Function, value: Value, dtype: DType) -> Value:
    """As DType.cast: through a signed integer, whose smallest number stands for all that does not fit."""
    middle = I64 if dtype.bits == 64 or dtype == U32 else I32
    whole = _signed(function, value, middle)
    if dtype != U64:
        return cast(function, whole, dtype)
    lanes = value.lanes
    bits = vector_type("i64", lanes)
    edge, end = (literal(2.0**power, value.dtype, lanes).ref for power in (63, 64))
    tests = (function.op(f"fcmp {test} {value}, {bound}") for test, bound in (("oge", edge), ("olt", end)))
    high = function.op(f"and {vector_type('i1', lanes)} {next(tests)}, {next(tests)}")
    unsigned = function.op(f"fptoui {value} to {bits}")
    chosen = function.op(f"select {vector_type('i1', lanes)} {high}, {bits} {unsigned}, {whole}")
    return Value(chosen, U64, lanes)


def _signed(function: Function, value: Value, dtype: DType) -> Value:
    """The lowest number fails the test too, and comes out right. One test serves both ends and NaN.

    LLVM leaves open what does not fit; the machine's instruction gives the lowest number.
    """
    lanes = value.lanes
    callee, features = _TRUNCATIONS.get((value.dtype, dtype, lanes), ("", ()))
    if callee and all(map(function.module.machine.has, features)):
        target = vector_type(compute_type(dtype), lanes)
        operands = [(value.type, value.ref)]
        if lanes == 16:  # all lanes, rounding as ever
            operands += [(target, "zeroinitializer"), ("i16", "-1"), ("i32", "4")]
        return Value(function.call(callee, target, operands), dtype, lanes)
    limit = literal(2.0 ** (dtype.bits - 1), value.dtype, lanes)
    size = function.same_type("fabs", value.type, value.ref)
    inside = Value(function.op(f"fcmp olt {value.type} {size}, {limit.ref}"), BOOL, lanes)
    target = vector_type(compute_type(dtype), lanes)
    whole = function.op(f"fptosi {value} to {target}")
    smallest = literal(-(1 << (dtype.bits - 1)), dtype, lanes)
    return Value(function.op(f"select {inside}, {target} {whole}, {smallest}"), dtype, lanes)


def _to_float(function: Function, value: Value, dtype: DType) -> Value:
    lanes, source = value.lanes, value.dtype
    target = vector_type(compute_type(dtype), lanes)
    half = dtype in (F16, BF16)
    if not source.is_float:
        name = "sitofp" if source.kind == "int" else "uitofp"
        converted = Value(function.op(f"{name} {value} to {target}"), dtype, lanes)
        return rounded(function, converted) if half else converted
    if source == F64:
        if half:
            return rounded(function, Value(_f64_to_f32_odd(function, value), dtype, lanes))
        return Value(function.op(f"fptrunc {value} to {target}"), dtype, lanes)
    if source in (F16, BF16):
        value = rounded(function, value)
    if dtype == F64:
        return Value(function.op(f"fpext {value} to {target}"), dtype, lanes)
    converted = Value(value.ref, dtype, lanes)
    return rounded(function, converted) if half else converted


def rounded(function: Function, value: Value) -> Value:
    """A half-width value, computed in f32, rounded to what memory can hold."""
    return from_memory(function, to_memory(function, value), value.dtype, value.lanes)


def _f64_to_f32_odd(function: Function, value: Value) -> str:
    """f32 by rounding to odd.

    Rounding that once more to fewer bits gives what one rounding from f64 would.
    """
    lanes = value.lanes
    single, wide = vector_type("float", lanes), vector_type("double", lanes)
    bits = vector_type("i32", lanes)
    near = function.op(f"fptrunc {value} to {single}")
    back = function.op(f"fpext {single} {near} to {wide}")
    inexact = Value(function.op(f"fcmp one {wide} {back}, {value.ref}"), BOOL, lanes)
    size = function.same_type("fabs", wide, value.ref)
    near_size = function.same_type("fabs", wide, back)
    above = Value(function.op(f"fcmp ogt {wide} {near_size}, {size}"), BOOL, lanes)
    raw = Value(function.op(f"bitcast {single} {near} to {bits}"), U32, lanes)
    down = function.op(f"sub {raw}, {literal(1, U32, lanes).ref}")
    toward_zero = function.op(f"select {above}, {bits} {down}, {raw}")
    odd = function.op(f"or {bits} {toward_zero}, {literal(1, U32, lanes).ref}")
    chosen = function.op(f"select {inexact}, {bits} {odd}, {raw}")
    return function.op(f"bitcast {bits} {chosen} to {single}")


def _shifted_left(function: Function, ref: str, lanes: int) -> str:
    short, bits = vector_type("i16", lanes), vector_type("i32", lanes)
    wide = function.op(f"zext {short} {ref} to {bits}")
    moved = function.op(f"shl {bits} {wide}, {literal(16, U32, lanes).ref}")
    return function.op(f"bitcast {bits} {moved} to {vector_type('float', lanes)}")


def _upper_half(function: Function, value: Value) -> str:
    """The half of a float32 that bf16 keeps."""
    bits, short = vector_type("i32", value.lanes), vector_type("i16", value.lanes)
    raw = function.op(f"bitcast {value} to {bits}")
    high = function.op(f"lshr {bits} {raw}, {literal(16, U32, value.lanes).ref}")
    return function.op(f"trunc {bits} {high} to {short}")


def _to_bfloat(function: Function, value: Value) -> str:
    """By integers, on every machine: the machine's own conversion flushes denormals."""
    lanes = value.lanes
    bits, short = vector_type("i32", lanes), vector_type("i16", lanes)

    def u32(number: int) -> str:
        return literal(number, U32, lanes).ref

    raw = function.op(f"bitcast {value} to {bits}")
    high = function.op(f"lshr {bits} {raw}, {u32(16)}")
    odd = function.op(f"and {bits} {high}, {u32(1)}")
    bias = function.op(f"add {bits} {odd}, {u32(0x7FFF)}")
    sum_ = function.op(f"add {bits} {raw}, {bias}")
    rounded_bits = function.op(f"lshr {bits} {sum_}, {u32(16)}")
    quiet = function.op(f"or {bits} {high}, {u32(0x40)}")
    nan = Value(function.op(f"fcmp uno {value}, {value.ref}"), BOOL, lanes)
    chosen = function.op(f"select {nan}, {bits} {quiet}, {bits} {rounded_bits}")
    return function.op(f"trunc {bits} {chosen} to {short}")


def _from_half(function: Function, ref: str, lanes: int) -> str:
    single, half, short = (vector_type(t, lanes) for t in ("float", "half", "i16"))
    if function.module.machine.has("f16c"):
        raw = function.op(f"bitcast {short} {ref} to {half}")
        return function.op(f"fpext {half} {raw} to {single}")
    return _from_half_by_integers(function, ref, lanes)


def _from_half_by_integers(function: Function, ref: str, lanes: int) -> str:
    """The exponent is re-biased by a multiplication, which also brings denormals right."""
    single, short, bits = (vector_type(t, lanes) for t in ("float", "i16", "i32"))

    def u32(number: int) -> str:
        return literal(number, U32, lanes).ref

    wide = function.op(f"zext {short} {ref} to {bits}")
    magnitude = function.op(f"and {bits} {wide}, {u32(0x7FFF)}")
    sign = function.op(f"and {bits} {wide}, {u32(0x8000)}")
    moved = function.op(f"shl {bits} {magnitude}, {u32(13)}")
    tiny = function.op(f"bitcast {bits} {moved} to {single}")
    scaled = function.op(f"fmul {single} {tiny}, {literal(2.0**112, F32, lanes).ref}")
    finite = function.op(f"bitcast {single} {scaled} to {bits}")
    special = Value(function.op(f"icmp uge {bits} {magnitude}, {u32(0x7C00)}"), BOOL, lanes)
    infinite = function.op(f"or {bits} {moved}, {u32(0x7F800000)}")
    body = function.op(f"select {special}, {bits} {infinite}, {bits} {finite}")
    high_sign = function.op(f"shl {bits} {sign}, {u32(16)}")
    return function.op(f"bitcast {bits} {function.op(f'or {bits} {body}, {high_sign}')} to {single}")


def _to_half(function: Function, value: Value) -> str:
    lanes = value.lanes
    half, short = vector_type("half", lanes), vector_type("i16", lanes)
    if function.module.machine.has("f16c"):
        near = function.op(f"fptrunc {value} to {half}")
        return function.op(f"bitcast {half} {near} to {short}")
    return _to_half_by_integers(function, value)


def _to_half_by_integers(function: Function, value: Value) -> str:
    """Normal results by a rounding bias on the bits, denormal ones by adding 0.5: its last bit is theirs."""
    lanes = value.lanes
    single, short, bits = (vector_type(t, lanes) for t in ("float", "i16", "i32"))

    def u32(number: int) -> str:
        return literal(number, U32, lanes).ref

    raw = function.op(f"bitcast {value} to {bits}")
    magnitude = function.op(f"and {bits} {raw}, {u32(0x7FFFFFFF)}")
    sign = function.op(f"and {bits} {function.op(f'lshr {bits} {raw}, {u32(16)}')}, {u32(0x8000)}")
    odd = function.op(f"and {bits} {function.op(f'lshr {bits} {magnitude}, {u32(13)}')}, {u32(1)}")
    bias = function.op(f"add {bits} {odd}, {u32(0xFFF - (112 << 23))}")
    normal = function.op(f"lshr {bits} {function.op(f'add {bits} {magnitude}, {bias}')}, {u32(13)}")
    size = function.op(f"bitcast {bits} {magnitude} to {single}")
    aligned = function.op(f"fadd {single} {size}, {literal(0.5, F32, lanes).ref}")
    shifted = function.op(f"bitcast {single} {aligned} to {bits}")
    denormal = function.op(f"sub {bits} {shifted}, {u32(0x3F000000)}")
    small = Value(function.op(f"icmp ult {bits} {magnitude}, {u32(0x38800000)}"), BOOL, lanes)
    huge = Value(function.op(f"icmp uge {bits} {magnitude}, {u32(0x477FF000)}"), BOOL, lanes)
    nan = Value(function.op(f"icmp ugt {bits} {magnitude}, {u32(0x7F800000)}"), BOOL, lanes)
    body = function.op(f"select {small}, {bits} {denormal}, {bits} {normal}")
    body = function.op(f"select {huge}, {bits} {u32(0x7C00)}, {bits} {body}")
    body = function.op(f"select {nan}, {bits} {u32(0x7E00)}, {bits} {body}")
    whole = function.op(f"or {bits} {body}, {sign}")
    return function.op(f"trunc {bits} {whole} to {short}")
