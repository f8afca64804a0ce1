"""Dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.ir import Function, Node, Value
from tilewright.passes.base import FunctionPass


@dataclass(frozen=True)
class Dce(FunctionPass):
    """Remove what no output of the function needs.

    1. a node without a used result          y = Relu(x); unused = Exp(x)   ->  y = Relu(x)
    2. a stacked result of a Scan that nobody reads is no longer computed   (h, ys) = Scan  ->  h = Scan
    3. a capture that a Scan's body does not read is no longer passed

    Placeholders of the function stay: they are its interface. Idempotent; one backward sweep, O(n).
    """

    name: ClassVar[str] = "dce"

    def transform(self, function: Function) -> bool:
        used: set[Value] = set(function.outputs)
        kept: list[Node] = []
        changed = False
        for node in reversed(function.nodes):
            if not any(value in used for value in node.outputs):
                changed = True
                continue
            if node.op == "Scan":
                changed |= _narrow(node, used)
            used.update(value for value in node.inputs if value is not None)
            kept.append(node)
        function.nodes = kept[::-1]
        return changed


def _narrow(node: Node, used: set[Value]) -> bool:
    """Drop unread stacked results and unread captures of a Scan."""
    (body,) = node.bodies
    states, passed = (
        int(node.attrs["num_states"]),
        int(node.attrs["num_states"]) + int(node.attrs["num_scans"]),
    )
    results = [i for i, value in enumerate(node.outputs) if i < states or value in used]
    dropped_results = len(results) < len(node.outputs)
    if dropped_results:
        node.outputs = [node.outputs[i] for i in results]
        body.outputs = [body.outputs[i] for i in results]
        body.output_names = [body.output_names[i] for i in results] if body.output_names else []
        for index, value in enumerate(node.outputs):
            value.index = index
    needed = {value for inner in _live_nodes(body) for value in inner.inputs} | set(body.outputs)
    operands = [i for i, value in enumerate(body.inputs) if i < passed or value in needed]
    dropped_operands = len(operands) < len(body.inputs)
    if dropped_operands:
        node.inputs = [node.inputs[i] for i in operands]
        body.inputs = [body.inputs[i] for i in operands]
    return dropped_results or dropped_operands


def _live_nodes(body: Function) -> list[Node]:
    used: set[Value] = set(body.outputs)
    live = []
    for node in reversed(body.nodes):
        if any(value in used for value in node.outputs):
            used.update(value for value in node.inputs if value is not None)
            live.append(node)
    return live
