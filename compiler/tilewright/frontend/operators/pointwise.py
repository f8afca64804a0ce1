"""More element-wise operators: inverse and hyperbolic functions, activations, bits, questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.dtypes import F64
from tilewright.frontend.registry import Attributes, Reader, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_UNARY: dict[str, tuple[int, ...]] = {
    "Acos": (7, 22),
    "Acosh": (9, 22),
    "Asin": (7, 22),
    "Asinh": (9, 22),
    "Atan": (7, 22),
    "Atanh": (9, 22),
    "BitwiseNot": (18,),
    "Cosh": (9, 22),
    "IsNaN": (9, 13, 20),
    "Mish": (18, 22),
    "Sinh": (9, 22),
    "Softsign": (1, 22),
    "Tan": (7, 22),
}
_BINARY = {"BitwiseAnd": (18,), "BitwiseOr": (18,), "BitwiseXor": (18,)}
_PARAMETERS: dict[str, tuple[tuple[int, ...], dict[str, float]]] = {
    "Celu": ((12, 28), {"alpha": 1.0}),
    "Selu": ((6, 22), {"alpha": 1.6732632, "gamma": 1.050701}),
    "Swish": ((24,), {"alpha": 1.0}),
    "ThresholdedRelu": ((10, 22), {"alpha": 1.0}),
}


def _reader(op: str, operands: int, defaults: dict[str, float] | None = None) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        attrs = {key: site.attr(key, value) for key, value in (defaults or {}).items()}
        return [site.emit(op, *(site.operand(index) for index in range(operands)), **attrs)]

    return read


for _op, _since in _UNARY.items():
    importer(_op, *_since)(_reader(_op, 1))
for _op, _since in _BINARY.items():
    importer(_op, *_since)(_reader(_op, 2))
for _op, (_since, _defaults) in _PARAMETERS.items():
    importer(_op, *_since)(_reader(_op, 1, _defaults))


@importer("Shrink", 9)
def shrink(site: Site) -> Sequence[Value]:
    """Integers are compared with the real bound in f64; the result is truncated to their type."""
    x = site.operand(0)
    work = x if x.dtype.is_float else site.emit("Cast", x, to=F64)
    y = site.emit("Shrink", work, bias=site.attr("bias", 0.0), lambd=site.attr("lambd", 0.5))
    return [y if work is x else site.emit("Cast", y, to=x.dtype)]


@importer("IsInf", 10, 20)
def is_inf(site: Site) -> Sequence[Value]:
    flags = {sign: site.flag(f"detect_{sign}", 1) for sign in ("positive", "negative")}
    return [site.emit("IsInf", site.operand(0), **flags)]


def refuse_shift(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """The direction is one of two words."""
    if attributes.get("direction") not in ("LEFT", "RIGHT"):
        yield f"attribute 'direction' is '{attributes.get('direction')}', expected LEFT or RIGHT"


@importer("BitShift", 11, 28, refuse=refuse_shift)
def bit_shift(site: Site) -> Sequence[Value]:
    return [site.emit("BitShift", site.operand(0), site.operand(1), direction=site.attr("direction"))]
