"""log and pow.

Coefficients: Chebyshev interpolation of the function named beside them, made with 50 digits.
"""

from __future__ import annotations

import math

from tilewright.targets.cpu.math_exponential import LN2_F32, LN2_F64, exp_sum
from tilewright.targets.cpu.math_writer import MathWriter

# (log((1 + s) / (1 - s)) - 2 s) / s**3 as a function of s**2, |s| <= 0.1733
_LOG_F32 = (0.6666666654507885, 0.40000129465675294, 0.28549964284819396, 0.2335354248644052)
_LOG_F64 = (
    0.6666666666666666,
    0.4000000000000101,
    0.2857142857072283,
    0.2222222240984404,
    0.18181793722272505,
    0.15386342974308154,
    0.1326603503726105,
    0.13114976096717038,
)
_SQRT_HALF = math.sqrt(0.5)


def _split(m: MathWriter, x: str) -> tuple[str, str]:
    """(f, k) with x = (1 + f) 2**k, 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x, even denormal."""
    bits, smallest, scale = (52, 2.0**-1022, 2.0**54) if m.double else (23, 2.0**-126, 2.0**25)
    tiny = m.compare("olt", x, m.number(smallest))
    raw = m.bits(m.select(tiny, m.mul(x, m.number(scale)), x))
    # subtracting the bits of sqrt(1/2) makes the exponent field count from there
    shifted = m.int_op("sub", raw, m.bits(m.number(_SQRT_HALF)))
    exponent = m.int_op("ashr", shifted, m.whole(bits))
    mantissa = m.int_op("sub", raw, m.int_op("shl", exponent, m.whole(bits)))
    k = m.to_float(exponent)
    k = m.sub(k, m.select(tiny, m.number(54.0 if m.double else 25.0), m.number(0.0)))
    return m.sub(m.from_bits(mantissa), m.number(1.0)), k


def log(m: MathWriter, x: str) -> str:
    """log(x) within 1 ulp; -inf at 0, NaN below."""
    f, k = _split(m, x)
    s = m.div(f, m.add(f, m.number(2.0)))
    z = m.mul(s, s)
    half_square = m.mul(m.mul(f, f), m.number(0.5))
    tail = m.mul(z, m.polynomial(z, _LOG_F64 if m.double else _LOG_F32))
    high, low = LN2_F64 if m.double else LN2_F32
    inner = m.muladd(k, m.number(low), m.mul(s, m.add(half_square, tail)))
    result = m.muladd(k, m.number(high), m.sub(f, m.sub(half_square, inner)))
    return _special_log(m, x, result)


def _special_log(m: MathWriter, x: str, result: str) -> str:
    result = m.select(m.compare("oeq", x, m.number(math.inf)), x, result)
    result = m.select(m.compare("ult", x, m.number(0.0)), m.number(math.nan), result)
    return m.select(m.compare("oeq", x, m.number(0.0)), m.number(-math.inf), result)


def power(m: MathWriter, x: str, y: str) -> str:
    """x ** y with C's special cases. f32 is computed through f64, f64 with a logarithm in two parts."""
    if not m.double:
        return _power_f32(m, x, y)
    size = m.abs(x)
    high, low = _log_in_two(m, size)
    product, product_low = _two_product(m, y, high)
    rest = m.muladd(y, low, product_low)
    usable = m.compare("olt", m.abs(product), m.number(1000.0))  # beyond it the low part may be inf - inf
    value = exp_sum(m, product, m.select(usable, rest, m.number(0.0)))
    return _special_power(m, x, y, value)


def _power_f32(m: MathWriter, x: str, y: str) -> str:
    wide = MathWriter(m.module, "double", m.lanes)
    wide.function = m.function

    def extended(ref: str) -> str:
        return m.function.op(f"fpext {m.type} {ref} to {wide.type}")

    log_x = wide.call("log", wide.abs(extended(x)))
    value = wide.call("exp", wide.mul(extended(y), log_x))
    narrow = m.function.op(f"fptrunc {wide.type} {value} to {m.type}")
    return _special_power(m, x, y, narrow)


def _special_power(m: MathWriter, x: str, y: str, value: str) -> str:
    """value: |x| ** y. Signs, zeros, infinities and ones, in the order in which they overrule each other."""
    zero, one = m.number(0.0), m.number(1.0)
    size, y_size = m.abs(x), m.abs(y)
    whole = m.call("trunc", y)
    is_whole = m.compare("oeq", whole, y)
    half = m.mul(y, m.number(0.5))
    odd = m.each(is_whole, m.compare("une", m.call("trunc", half), half))
    infinite = m.compare("oeq", y_size, m.number(math.inf))
    grows = m.compare("ogt", size, one)
    rising = m.compare("ogt", y, zero)
    # |x| in {0, inf}, or an infinite y: the result is 0 or inf by the direction
    up = m.function.op(f"xor {m.mask_type} {grows}, {rising}")
    extreme = m.select(up, zero, m.number(math.inf))
    edge = m.either(m.compare("oeq", size, zero), m.compare("oeq", size, m.number(math.inf)))
    value = m.select(m.either(edge, infinite), extreme, value)
    value = m.select(odd, m.copysign(value, x), value)
    invalid = m.each(m.compare("olt", x, zero), m.function.op(f"xor {m.mask_type} {is_whole}, {_true(m)}"))
    invalid = m.each(invalid, m.compare("one", size, m.number(math.inf)))
    value = m.select(invalid, m.number(math.nan), value)
    nan = m.compare("uno", x, y)
    value = m.select(nan, m.number(math.nan), value)
    unit = m.each(infinite, m.compare("oeq", size, one))
    unit = m.either(unit, m.either(m.compare("oeq", y, zero), m.compare("oeq", x, one)))
    return m.select(unit, one, value)


def _true(m: MathWriter) -> str:
    return "splat (i1 true)" if m.lanes else "true"


def _two_sum(m: MathWriter, a: str, b: str) -> tuple[str, str]:
    """a + b and its rounding error, whichever is larger."""
    total = m.add(a, b)
    part = m.sub(total, a)
    return total, m.add(m.sub(a, m.sub(total, part)), m.sub(b, part))


def _two_product(m: MathWriter, a: str, b: str) -> tuple[str, str]:
    """a * b and its rounding error: by a fused operation, or by Dekker's splitting into halves."""
    product = m.mul(a, b)
    if m.machine.has("fma"):
        return product, m.function.same_type("fma", m.type, a, b, m.neg(product))
    (a_high, a_low), (b_high, b_low) = _halves(m, a), _halves(m, b)
    error = m.sub(m.mul(a_high, b_high), product)
    error = m.add(error, m.mul(a_high, b_low))
    error = m.add(error, m.mul(a_low, b_high))
    return product, m.add(error, m.mul(a_low, b_low))


def _halves(m: MathWriter, a: str) -> tuple[str, str]:
    """The upper 26 bits and the rest, by masking: unlike a multiplication it cannot overflow."""
    high = m.from_bits(m.int_op("and", m.bits(a), m.whole(-(1 << 27))))
    return high, m.sub(a, high)


def _log_in_two(m: MathWriter, x: str) -> tuple[str, str]:
    """log(x) of a positive f64 as an unevaluated sum, to about 2**-62.

    s = f / (2 + f) is carried in two parts; the terms after 2 s are at most a hundredth of it, so that one
    part is enough for them.
    """
    f, k = _split(m, x)
    bottom, bottom_low = _two_sum(m, m.number(2.0), f)
    s = m.div(f, bottom)
    back, back_low = _two_product(m, s, bottom)
    rest = m.sub(m.sub(m.sub(f, back), back_low), m.mul(s, bottom_low))
    s_low = m.div(rest, bottom)
    z = m.mul(s, s)
    tail = m.mul(m.mul(s, z), m.polynomial(z, _LOG_F64))
    twice, twice_low = m.add(s, s), m.add(s_low, s_low)
    base = m.mul(k, m.number(LN2_F64[0]))  # exact
    high, low = _two_sum(m, base, twice)
    low = m.add(low, m.add(m.muladd(k, m.number(LN2_F64[1]), tail), twice_low))
    return _two_sum(m, high, low)
