"""Operators of two operands with NumPy broadcasting, and the variadic ones as chains of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from tilewright.dtypes import F64
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
        return [_folded(site, op)]

    return read


def _folded(site: Site, op: str) -> Value:
    """op(op(a, b), c) ...; a single operand is its own result."""
    return reduce(lambda left, right: site.emit(op, left, right), site.all_operands())


for _op, _since in _BINARY.items():
    importer(_op, *_since)(_binary(_op))
importer("Max", 6, 8, 12, 13)(_chain("Max"))
importer("Min", 6, 8, 12, 13)(_chain("Min"))
importer("Sum", 6, 8, 13)(_chain("Add"))


@importer("Mean", 6, 8, 13)
def mean(site: Site) -> Sequence[Value]:
    total = _folded(site, "Add")
    return [site.emit("Div", total, site.scalar(len(site.operands), total))]


@importer("Pow", 7, 12, 13, 15)
def power(site: Site) -> Sequence[Value]:
    """It has the base's type; the exponent is converted, a real power of an integer is taken in f64."""
    base, exponent = site.operand(0), site.operand(1)
    if base.dtype == exponent.dtype:
        return [site.emit("Pow", base, exponent)]
    if base.dtype.is_integer and exponent.dtype.is_float:
        wide = [site.emit("Cast", value, to=F64) for value in (base, exponent)]
        return [site.emit("Cast", site.emit("Pow", *wide), to=base.dtype)]
    return [site.emit("Pow", base, site.emit("Cast", exponent, to=base.dtype))]


def refuse_mod(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """fmod is a flag."""
    if attributes.get("fmod", 0) not in (0, 1):
        yield f"attribute 'fmod' is {attributes['fmod']}, expected 0 or 1"


@importer("Mod", 10, 13, 28, refuse=refuse_mod)
def mod(site: Site) -> Sequence[Value]:
    return [site.emit("Mod", site.operand(0), site.operand(1), fmod=site.attr("fmod", 0))]


@importer("Where", 9, 16)
def where(site: Site) -> Sequence[Value]:
    return [site.emit("Where", *(site.operand(index) for index in range(3)))]
