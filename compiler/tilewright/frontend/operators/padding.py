"""Pad: attributes before opset 11, operands since, a choice of axes since opset 18."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

MODES = ("constant", "reflect", "edge", "wrap")


def refuse_modes(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Modes that ONNX does not define."""
    mode = attributes.get("mode", "constant")
    if mode not in MODES:
        yield f"attribute 'mode' is '{mode}', expected one of {', '.join(MODES)}"


@importer("Pad", 2, 11, 13, 18, 19, 21, 23, 24, 25, refuse=refuse_modes)
def pad(site: Site) -> Sequence[Value]:
    x, mode = site.operand(0), site.attr("mode", "constant")
    pads = _pads(site, len(x.shape))
    if not any(pads):
        return [x]
    return [site.emit("Pad", x, _fill(site, x) if mode == "constant" else None, pads=pads, mode=mode)]


def _pads(site: Site, rank: int) -> tuple[int, ...]:
    """Begins then ends for every axis."""
    given: tuple[int, ...] = site.attr("pads") if site.since < 11 else site.ints(1)
    axes = [site.normal_axis(axis, rank) for axis in site.ints(3)] if site.has(3) else list(range(rank))
    if len(given) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise site.fail(f"{len(given)} pads do not fit the axes {axes}")
    pads = [0] * (2 * rank)
    for index, axis in enumerate(axes):
        pads[axis], pads[axis + rank] = given[index], given[index + len(axes)]
    return tuple(pads)


def _fill(site: Site, x: Value) -> Value | None:
    """The value to pad with, of rank 0; None means zero."""
    if site.since < 11:
        value = site.attr("value", 0.0)
        return site.scalar(value, x) if value else None
    given = site.optional(2)
    return given if given is None else site.reshape(given, ())
