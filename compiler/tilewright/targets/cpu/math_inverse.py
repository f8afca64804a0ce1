"""atan. Coefficients: Chebyshev interpolation of the function named beside them, by fractions."""

from __future__ import annotations

import math

from tilewright.targets.cpu.math_writer import MathWriter

# (atan(y) / y - 1) / y**2 as a function of y**2, |y| <= tan(pi / 8)
_ATAN_F32 = (
    -0.33333331750990464,
    0.19999538145890985,
    -0.14263874657674058,
    0.10742857253635285,
    -0.06449032758802146,
)
_ATAN_F64 = (
    -0.3333333333333333,
    0.199999999999998,
    -0.14285714285659135,
    0.1111111110508792,
    -0.09090908750142987,
    0.07692296278011826,
    -0.06666423144373547,
    0.05878908989502497,
    -0.05230307009451966,
    0.04550921947748786,
    -0.03455331011258798,
    0.016266651019542305,
)


def atan(m: MathWriter, x: str) -> str:
    """atan(|x|) is atan(y) plus 0, pi / 4 or pi / 2, with |y| <= tan(pi / 8) from a single division."""
    size = m.abs(x)
    one = m.number(1.0)
    high = m.compare("ogt", size, m.number(1.0 + math.sqrt(2.0)))
    middle = m.compare("ogt", size, m.number(math.sqrt(2.0) - 1.0))
    above = m.select(high, m.number(-1.0), m.select(middle, m.sub(size, one), size))
    below = m.select(high, size, m.select(middle, m.add(size, one), one))
    origin = m.select(
        high,
        m.number(math.pi / 2),
        m.select(middle, m.number(math.pi / 4), m.number(0.0)),
    )
    y = m.div(above, below)
    square = m.mul(y, y)
    value = m.muladd(m.mul(y, square), m.polynomial(square, _ATAN_F64 if m.double else _ATAN_F32), y)
    return m.copysign(m.add(origin, value), x)
