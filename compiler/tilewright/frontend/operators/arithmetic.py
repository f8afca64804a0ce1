"""Operators of two operands with NumPy broadcasting, and the variadic ones as chains of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce

from tilewright.dtypes import F32, F64
from tilewright.frontend.registry import Attributes, Reader, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_BINARY: dict[str, tuple[int, ...]] = {
    "Add": (7, 13, 14),
    "Sub": (7, 13, 14),
    "Mul": (7, 13, 14),
    "Div": (7, 13, 14),
    "And": (7,),
    "Or": (7,),
    "Xor": (7,),
    "Equal": (7, 11, 13, 19),
    "Less": (7, 9, 13),
    "LessOrEqual": (12, 16),
    "Greater": (7, 9, 13),
    "GreaterOrEqual": (12, 16),
}


def _binary(op: str) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        return [site.emit(op, site.operand(0), site.operand(1))]

    return read


def _chain(op: str) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        return [_folded(op, site, site.all_operands())]

    return read


def _folded(op: str, site: Site, operands: Sequence[Value]) -> Value:
    """op(op(a, b), c) ...; a single operand is its own result."""
    return reduce(lambda left, right: site.emit(op, left, right), operands)


def _in_wide_type(site: Site, calculate: Callable[[Sequence[Value]], Value]) -> Value:
    """Operands of a half type are computed in f32 and the result rounded once."""
    operands = site.all_operands()
    dtype = operands[0].dtype
    if not dtype.is_float or dtype.bits > 16 or len(operands) == 1:
        return calculate(operands)
    return site.emit("Cast", calculate([site.emit("Cast", x, to=F32) for x in operands]), to=dtype)


for _op, _since in _BINARY.items():
    importer(_op, *_since)(_binary(_op))
importer("Max", 6, 8, 12, 13)(_chain("Max"))
importer("Min", 6, 8, 12, 13)(_chain("Min"))


@importer("Sum", 6, 8, 13)
def sum_(site: Site) -> Sequence[Value]:
    return [_in_wide_type(site, partial(_folded, "Add", site))]


@importer("Mean", 6, 8, 13)
def mean(site: Site) -> Sequence[Value]:
    def average(operands: Sequence[Value]) -> Value:
        total = _folded("Add", site, operands)
        return site.emit("Div", total, site.scalar(len(operands), total))

    return [_in_wide_type(site, average)]


@importer("Pow", 7, 12, 13, 15)
def power(site: Site) -> Sequence[Value]:
    """It has the base's type; operands of different types meet in a type that holds both."""
    base, exponent = site.operand(0), site.operand(1)
    if base.dtype == exponent.dtype:
        return [site.emit("Pow", base, exponent)]
    wide = F32 if base.dtype.is_float and F64 not in (base.dtype, exponent.dtype) else F64
    parts = [
        value if value.dtype == wide else site.emit("Cast", value, to=wide) for value in (base, exponent)
    ]
    y = site.emit("Pow", *parts)
    return [y if y.dtype == base.dtype else site.emit("Cast", y, to=base.dtype)]


def refuse_mod(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """fmod is a flag."""
    if attributes.get("fmod", 0) not in (0, 1):
        yield f"attribute 'fmod' is {attributes['fmod']}, expected 0 or 1"


@importer("Mod", 10, 13, 28, refuse=refuse_mod)
def mod(site: Site) -> Sequence[Value]:
    """Before opset 28 the floored remainder of real numbers is not defined."""
    fmod = site.flag("fmod")
    if site.operand(0).dtype.is_float and not fmod and site.since < 28:
        raise site.fail("floating-point operands need fmod = 1 before opset 28")
    return [site.emit("Mod", site.operand(0), site.operand(1), fmod=fmod)]


@importer("Where", 9, 16)
def where(site: Site) -> Sequence[Value]:
    return [site.emit("Where", *(site.operand(index) for index in range(3)))]
