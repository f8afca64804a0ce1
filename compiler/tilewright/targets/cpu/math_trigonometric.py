"""sin and cos.

Coefficients: Chebyshev interpolation of the functions named beside them, made with 50 digits.
"""

from __future__ import annotations

import math

from tilewright.targets.cpu.math_writer import MathWriter

# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 as functions of r**2, |r| <= pi / 4
_SIN = (
    -0.16666666666666666,
    0.008333333333333331,
    -0.00019841269841264567,
    2.7557319218954762e-06,
    -2.505210610025599e-08,
    1.6058510875319195e-10,
    -7.585486485235938e-13,
)
_COS = (
    0.041666666666666664,
    -0.0013888888888888887,
    2.4801587301584367e-05,
    -2.75573192211891e-07,
    2.0876755717584403e-09,
    -1.1470449354466773e-11,
    4.745198807202876e-14,
)
# pi / 2 in three parts; the first two have at most 33 bits: products with whole numbers below 2**20 are exact
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)


def _reduced(m: MathWriter, x: str) -> tuple[str, str]:
    """(r, n) with x = n pi / 2 + r and |r| <= pi / 4, for |x| < 10**6 to full accuracy."""
    whole, quarter = m.nearest(m.mul(x, m.number(2.0 / math.pi)))
    r = x
    for part in _HALF_PI:
        r = m.muladd(whole, m.number(-part), r)
    return r, quarter


def _wave(m: MathWriter, x: str, shift: int) -> str:
    r, quarter = _reduced(m, x)
    quarter = m.int_op("add", quarter, m.whole(shift))
    z = m.mul(r, r)
    sine = m.muladd(m.mul(r, z), m.polynomial(z, _SIN), r)
    cosine = m.muladd(m.mul(z, z), m.polynomial(z, _COS), m.muladd(z, m.number(-0.5), m.number(1.0)))
    odd = m.int_compare("ne", m.int_op("and", quarter, m.whole(1)), m.whole(0))
    value = m.select(odd, cosine, sine)
    negative = m.int_compare("ne", m.int_op("and", quarter, m.whole(2)), m.whole(0))
    value = m.select(negative, m.neg(value), value)
    finite = m.compare("olt", m.abs(x), m.number(math.inf))
    return m.select(finite, value, m.number(math.nan))


def _through_f64(m: MathWriter, x: str, name: str) -> str:
    """f32 by f64: the reduction of a large argument then keeps all the bits that f32 needs."""
    wide = MathWriter(m.module, "double", m.lanes)
    wide.function = m.function
    value = wide.call(name, m.function.op(f"fpext {m.type} {x} to {wide.type}"))
    return m.function.op(f"fptrunc {wide.type} {value} to {m.type}")


def sin(m: MathWriter, x: str) -> str:
    """NaN for infinities. Full accuracy for |x| < 10**6 (f64) or 10**9 (f32)."""
    return _wave(m, x, 0) if m.double else _through_f64(m, x, "sin")


def cos(m: MathWriter, x: str) -> str:
    """NaN for infinities. Full accuracy for |x| < 10**6 (f64) or 10**9 (f32)."""
    return _wave(m, x, 1) if m.double else _through_f64(m, x, "cos")
