"""Dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.control import (
    CONTROL_FLOW,
    changing_inputs,
    leading_operands,
    leading_results,
    required_results,
)
from tilewright.passes.base import FunctionPass


@dataclass(frozen=True)
class Dce(FunctionPass):
    """Remove what no output of the function needs.

    1. a node without a used result          y = Relu(x); unused = Exp(x)   ->  y = Relu(x)
    2. a stacked result of a Scan or Loop, or a result of an If, that nobody reads is no longer computed
                                             (h, ys) = Scan  ->  h = Scan
    3. a capture that no body of a node reads is no longer passed

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
            if node.op in CONTROL_FLOW:
                changed |= _narrow(node, used)
            used.update(value for value in node.inputs if value is not None)
            kept.append(node)
        function.nodes = kept[::-1]
        return changed


def _narrow(node: Node, used: set[Value]) -> bool:
    """Drop unread results that are no states, and captures that no body reads."""
    first, kept = leading_results(node), required_results(node)
    results = [i for i, value in enumerate(node.outputs) if i < kept or value in used]
    dropped_results = len(results) < len(node.outputs)
    if dropped_results:
        node.outputs = [node.outputs[i] for i in results]
        for index, value in enumerate(node.outputs):
            value.index = index
        for body in node.bodies:
            _keep_results(body, [*range(first), *(first + i for i in results)])
    needed = [
        {value for inner in _live_nodes(body) for value in inner.inputs} | set(body.outputs)
        for body in node.bodies
    ]
    passed, outside = changing_inputs(node), leading_operands(node)
    columns = zip(*(body.inputs for body in node.bodies), strict=True)
    operands = [
        index
        for index, column in enumerate(columns)
        if index < passed or any(value in read for value, read in zip(column, needed, strict=True))
    ]
    dropped_operands = len(operands) < len(node.bodies[0].inputs)
    if dropped_operands:
        node.inputs = [*node.inputs[:outside], *(node.inputs[outside + i] for i in operands)]
        for body in node.bodies:
            body.inputs = [body.inputs[i] for i in operands]
    return dropped_results or dropped_operands


def _keep_results(body: Function, kept: list[int]) -> None:
    body.outputs = [body.outputs[i] for i in kept]
    body.output_names = [body.output_names[i] for i in kept] if body.output_names else []


def _live_nodes(body: Function) -> list[Node]:
    used: set[Value] = set(body.outputs)
    live = []
    for node in reversed(body.nodes):
        if any(value in used for value in node.outputs):
            used.update(value for value in node.inputs if value is not None)
            live.append(node)
    return live
