"""LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontend.registry import Attributes, Reader, Refusals, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value
from tilewright.ops.recurrent_activations import KINDS

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_GATES = {"LSTM": 3, "GRU": 2, "RNN": 1}  # activation functions of one direction
_STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}


def _refusals(op: str) -> Refusals:
    def refuse(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
        """Unknown directions, layouts and activations, and a number of activations that fits no direction."""
        direction = attributes.get("direction", "forward")
        if direction not in _DIRECTIONS:
            yield f"attribute 'direction' is '{direction}', expected one of {', '.join(_DIRECTIONS)}"
        if attributes.get("layout", 0) not in (0, 1):
            yield f"attribute 'layout' is {attributes['layout']}, expected 0 or 1"
        if attributes.get("clip", 1) <= 0:
            yield f"attribute 'clip' is {attributes['clip']}, expected a positive number"
        given = [name.lower() for name in attributes.get("activations", ())]
        for name in given:
            if name not in KINDS:
                yield f"attribute 'activations' names '{name}', expected {', '.join(KINDS)}"
        if given and len(given) not in (_GATES[op], 2 * _GATES[op]):
            yield f"attribute 'activations' has {len(given)} names, expected {_GATES[op]} for each direction"

    return refuse


def _activations(site: Site) -> dict[str, object]:
    """Names for every direction, and their parameters: the given ones in order, then the defaults.

    The names of one direction serve both; those of a second direction are ignored when there is only one.
    """
    given = [name.lower() for name in site.attr("activations", ())]
    if not given:
        return {}
    wanted = _GATES[site.op] * (2 if site.attr("direction", "forward") == "bidirectional" else 1)
    names = (given * 2)[:wanted]
    parameters: dict[str, list[float]] = {"alpha": [], "beta": []}
    for key, values in parameters.items():
        pending = list(site.attr(f"activation_{key}", ()))
        for name in names:
            default = getattr(KINDS[name], key)
            values.append(0.0 if default is None else pending.pop(0) if pending else default)
    return {
        "activations": " ".join(names),
        "alphas": tuple(parameters["alpha"]),
        "betas": tuple(parameters["beta"]),
    }


def _reader(op: str) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        """Operands are brought to time-major order; layout 1 has the batch first."""
        batch_first = site.flag("layout")
        operands = [site.operand(0), site.operand(1), site.operand(2)]
        rest = [site.optional(index) for index in range(3, 8 if op == "LSTM" else 6)]
        given: list[Value | None] = [*operands, *rest]
        if batch_first:
            for index in (0, *_STATES[op]):
                value = given[index]
                given[index] = value if value is None else site.emit("Transpose", value, perm=(1, 0, 2))
        attrs = _activations(site)
        if op == "LSTM":
            attrs["input_forget"] = site.flag("input_forget")
        if op == "GRU":
            attrs["linear_before_reset"] = site.flag("linear_before_reset")
        results = site.emit_all(
            op,
            *given,
            hidden_size=site.attr("hidden_size", operands[2].shape[-1]),
            direction=site.attr("direction", "forward"),
            clip=site.attr("clip", 0.0),
            **attrs,
        )
        if not batch_first:
            return results
        y, *states = results
        turned = [site.emit("Transpose", state, perm=(1, 0, 2)) for state in states]
        return [site.emit("Transpose", y, perm=(2, 0, 1, 3)), *turned]

    return read


for _op in _GATES:
    importer(_op, 7, 14, 22, refuse=_refusals(_op))(_reader(_op))
