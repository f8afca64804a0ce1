"""Functions of one operand, applied to every element."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.registry import Reader, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_UNARY: dict[str, tuple[int, ...]] = {
    "Abs": (6, 13),
    "Ceil": (6, 13),
    "Cos": (7, 22),
    "Erf": (9, 13),
    "Exp": (6, 13),
    "Floor": (6, 13),
    "HardSwish": (14, 22),
    "Log": (6, 13),
    "Neg": (6, 13),
    "Not": (1,),
    "Reciprocal": (6, 13),
    "Relu": (6, 13, 14),
    "Round": (11, 22),
    "Sigmoid": (6, 13),
    "Sign": (9, 13),
    "Sin": (7, 22),
    "Softplus": (1, 22),
    "Sqrt": (6, 13),
    "Tanh": (6, 13),
}

_PARAMETERS: dict[str, tuple[tuple[int, ...], dict[str, float]]] = {
    "LeakyRelu": ((6, 16), {"alpha": 0.01}),
    "Elu": ((6, 22), {"alpha": 1.0}),
    "HardSigmoid": ((6, 22), {"alpha": 0.2, "beta": 0.5}),
}


def _unary(op: str) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        return [site.emit(op, site.operand(0))]

    return read


def _parametric(op: str, defaults: dict[str, float]) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        return [
            site.emit(op, site.operand(0), **{key: site.attr(key, value) for key, value in defaults.items()})
        ]

    return read


for _op, _since in _UNARY.items():
    importer(_op, *_since)(_unary(_op))
for _op, (_since, _defaults) in _PARAMETERS.items():
    importer(_op, *_since)(_parametric(_op, _defaults))


@importer("Gelu", 20)
def gelu(site: Site) -> Sequence[Value]:
    return [site.emit("Gelu", site.operand(0), approximate=site.attr("approximate", "none"))]


@importer("PRelu", 7, 9, 16)
def prelu(site: Site) -> Sequence[Value]:
    """x where it is not negative, slope · x elsewhere; the slope broadcasts to x."""
    x, slope = site.operand(0), site.operand(1)
    negative = site.emit("Less", x, site.scalar(0, x))
    return [site.emit("Where", negative, site.emit("Mul", x, slope), x)]


@importer("Clip", 6, 11, 12, 13)
def clip(site: Site) -> Sequence[Value]:
    """Before opset 11 the bounds are attributes."""
    x = site.operand(0)
    low, high = site.optional(1), site.optional(2)
    if site.since < 11:
        low = site.scalar(site.attr("min"), x) if "min" in site.attributes else None
        high = site.scalar(site.attr("max"), x) if "max" in site.attributes else None
    if low is None and high is None:
        return [x]
    return [site.emit("Clip", x, _scalar(site, low), _scalar(site, high))]


def _scalar(site: Site, bound: Value | None) -> Value | None:
    """Exporters write bounds of shape [1] too."""
    return bound if bound is None else site.reshape(bound, ())


@importer("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def identity(site: Site) -> Sequence[Value]:
    return [site.operand(0)]
