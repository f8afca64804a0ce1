"""LSTM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_ACTIVATIONS = ("sigmoid", "tanh", "tanh")


def refuse_cells(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """The standard cell only: sigmoid, tanh, tanh, no clipping, separate input and forget gates."""
    direction = attributes.get("direction", "forward")
    if direction not in _DIRECTIONS:
        yield f"attribute 'direction' is '{direction}', expected one of {', '.join(_DIRECTIONS)}"
    activations = tuple(name.lower() for name in attributes.get("activations", ()))
    if activations and activations != _ACTIVATIONS * (len(activations) // 3):
        yield f"attribute 'activations' is {list(activations)}, only Sigmoid, Tanh, Tanh is supported"
    if "clip" in attributes:
        yield "attribute 'clip' is set"
    if attributes.get("input_forget", 0):
        yield "attribute 'input_forget' is set"
    if attributes.get("layout", 0) not in (0, 1):
        yield f"attribute 'layout' is {attributes['layout']}, expected 0 or 1"
    if "hidden_size" not in attributes:
        yield "attribute 'hidden_size' is missing"


@importer("LSTM", 7, 14, 22, refuse=refuse_cells)
def lstm(site: Site) -> Sequence[Value]:
    """Operands are brought to time-major order; layout 1 has the batch first."""
    batch_first = site.flag("layout")
    x, h0, c0 = site.operand(0), site.optional(5), site.optional(6)
    if batch_first:
        x = site.emit("Transpose", x, perm=(1, 0, 2))
        h0, c0 = (v if v is None else site.emit("Transpose", v, perm=(1, 0, 2)) for v in (h0, c0))
    results = site.emit_all(
        "LSTM",
        x,
        site.operand(1),
        site.operand(2),
        site.optional(3),
        site.optional(4),
        h0,
        c0,
        site.optional(7),
        hidden_size=site.attr("hidden_size"),
        direction=site.attr("direction", "forward"),
    )
    if not batch_first:
        return results
    orders = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))
    return [site.emit("Transpose", v, perm=perm) for v, perm in zip(results, orders, strict=True)]
