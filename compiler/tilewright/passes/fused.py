"""Making Fused nodes: a group of nodes moves into the body of one node."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.passes.base import FUSED
from tilewright.passes.constants import is_single, plain_array
from tilewright.passes.editor import merged_origin
from tilewright.storage import PLAIN

_NAMED = 4  # operators that a group's name spells out


def replace_groups(function: Function, groups: Sequence[Sequence[Node]]) -> None:
    """Put a Fused node in the place of the last node of each group.

    groups: disjoint, each in the function's order, its last node the only one whose result is used outside;
    so every operand of the group is produced before that place.
    """
    fused: dict[Node, Node] = {}
    inner: set[Node] = set()
    renamed: dict[Value, Value] = {}
    for group in groups:
        fused[group[-1]] = node = _fused_node(function, group)
        renamed[group[-1].output] = node.output
        inner.update(group[:-1])
    function.nodes = [fused.get(node, node) for node in function.nodes if node not in inner]
    for node in function.nodes:
        node.inputs = [value if value is None else renamed.get(value, value) for value in node.inputs]
    function.outputs = [renamed.get(value, value) for value in function.outputs]
    for body_tail, outer in renamed.items():
        outer.name = body_tail.name


def _fused_node(function: Function, group: Sequence[Node]) -> Node:
    tail = group[-1]
    name = function.fresh("_".join(node.op.lower() for node in group[:_NAMED]))
    body = Function(name)
    made = {value for node in group for value in node.outputs}
    arguments: dict[Value, Value] = {}
    operands: list[Value] = []
    for node in group:
        for value in node.inputs:
            if value is None or value in made or value in arguments:
                continue
            arguments[value] = _argument(body, value)
            if not is_single(value):
                operands.append(value)
    for node in group:
        body.fresh(node.name)
        for value in node.outputs:
            value.name = body.fresh(value.name)
        node.inputs = [value if value is None else arguments.get(value, value) for value in node.inputs]
    body.nodes = list(group)
    body.outputs = [tail.output]
    return function.make_node(
        FUSED, operands, [tail.output.type], name=name, bodies=(body,), origin=merged_origin(*group)
    )


def _argument(body: Function, value: Value) -> Value:
    """What stands in the body for a value from outside: a literal constant, or an input."""
    if is_single(value):
        plain = plain_array(value)
        return Constant(body.fresh(value.name), value.type.with_storage(PLAIN), data=plain)
    return body.add_input(value.name, value.type)
