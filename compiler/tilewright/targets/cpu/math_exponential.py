"""exp, expm1 and tanh.

Coefficients: Chebyshev interpolation of the functions named beside them, made with 50 digits.
"""

from __future__ import annotations

from tilewright.targets.cpu.math_writer import MathWriter

LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has enough trailing zeros for an exact product with any exponent
LN2_F32 = (0.693145751953125, 1.428606765330187e-06)
LN2_F64 = (0.6931471803691238, 1.9082149292705877e-10)
# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2
_EXP_F32 = (
    0.5000000014286223,
    0.16666666682534356,
    0.04166645680967788,
    0.008333310024225292,
    0.0013934541928270264,
    0.0001989198131397769,
)
_EXP_F64 = (
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333325544,
    0.0013888888888883327,
    0.00019841269876864356,
    2.4801587327007187e-05,
    2.755725283351691e-06,
    2.75572718102198e-07,
    2.5106274733573296e-08,
    2.0915442297780116e-09,
)
# (tanh(x) / x - 1) / x**2 as a function of x**2, |x| <= 0.63
_TANH_F32 = (
    -0.3333333315717251,
    0.1333330130532635,
    -0.05395873068577102,
    0.021764649205449123,
    -0.008330076704155741,
    0.002277154836702404,
)
_TANH_F64 = (
    -0.3333333333333333,
    0.1333333333333332,
    -0.05396825396823275,
    0.021869488534974113,
    -0.008863235495662057,
    0.0035921274442678127,
    -0.0014558277875939337,
    0.0005899779307331993,
    -0.00023887304169216485,
    9.59954447743919e-05,
    -3.700068879170042e-05,
    1.2128764181746385e-05,
    -2.4030435460377594e-06,
)
_TANH_SMALL = 0.625


def exp(m: MathWriter, x: str) -> str:
    """exp(x) within 1 ulp: overflow gives inf, underflow goes through the denormals to 0."""
    return exp_sum(m, x, None)


def exp_sum(m: MathWriter, x: str, low: str | None) -> str:
    """exp(x + low) for a `low` below the last place of x."""
    exponent, above = _parts(m, x, low)
    return _scaled(m, m.add(above, m.number(1.0)), exponent)


def expm1(m: MathWriter, x: str) -> str:
    """exp(x) - 1 within 2 ulp: near 0 the 1 is taken off before it can swallow the rest."""
    exponent, above = _parts(m, x, None)
    one = m.number(1.0)
    scale = m.power_of_two(exponent)
    small = m.muladd(scale, above, m.sub(scale, one))
    large = m.sub(_scaled(m, m.add(above, one), exponent), one)
    return m.select(m.compare("olt", m.abs(x), m.number(0.5)), small, large)


def _parts(m: MathWriter, x: str, low: str | None) -> tuple[str, str]:
    """(n, exp(r) - 1) with x + low = n ln 2 + r and |r| <= ln(2) / 2."""
    bound = (-746.0, 710.0) if m.double else (-104.0, 89.0)
    clamped = m.least(bound[1], m.most(bound[0], x))
    whole, exponent = m.nearest(m.mul(clamped, m.number(LOG2_E)))
    high_part, low_part = LN2_F64 if m.double else LN2_F32
    r = m.muladd(whole, m.number(-high_part), clamped)
    r = m.muladd(whole, m.number(-low_part), r)
    if low is not None:
        r = m.add(r, low)
    tail = m.polynomial(r, _EXP_F64 if m.double else _EXP_F32)
    return exponent, m.muladd(m.mul(r, r), tail, r)


def _scaled(m: MathWriter, mantissa: str, exponent: str) -> str:
    """mantissa * 2**exponent, in two halves, so that results near the ends of the range are right."""
    half = m.int_op("ashr", exponent, m.whole(1))
    rest = m.int_op("sub", exponent, half)
    return m.mul(m.mul(mantissa, m.power_of_two(half)), m.power_of_two(rest))


def tanh(m: MathWriter, x: str) -> str:
    """An odd polynomial near 0, elsewhere 1 - 2 / (exp(2|x|) + 1)."""
    size = m.abs(x)
    square = m.mul(x, x)
    small = m.muladd(m.mul(x, square), m.polynomial(square, _TANH_F64 if m.double else _TANH_F32), x)
    # past 20 (f64) or 10 (f32) the quotient vanishes beside 1; the bound keeps exp finite
    bounded = m.least(20.0 if m.double else 10.0, size)
    e = m.call("exp", m.add(bounded, bounded))
    large = m.sub(m.number(1.0), m.div(m.number(2.0), m.add(e, m.number(1.0))))
    return m.select(m.compare("olt", size, m.number(_TANH_SMALL)), small, m.copysign(large, x))
