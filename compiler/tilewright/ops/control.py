"""Operators with a body: Fused (the result of fusion) and Scan (a body run along the leading axis).

Their result types and values follow from the body, not from operands and attributes alone: `infer_node` gives
the types of any node, `evaluate_function` the values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.declaration import attributes, operator
from tilewright.ops.operator import Attr, Attrs, Builder, Operand, operator_of
from tilewright.types import TensorType

BODY_OPERATORS = frozenset({"Fused", "Scan"})


def _needs_body(name: str) -> VerifyError:
    return VerifyError(f"{name}: its meaning is in its body; ask infer_node and evaluate_function")


def _declare(name: str, doc: str, attrs: dict[str, Attr]) -> None:
    def infer(_: Sequence[TensorType | None], __: Attrs) -> tuple[TensorType, ...]:
        raise _needs_body(name)

    def evaluate(_: Sequence[np.ndarray | None], __: Attrs) -> tuple[np.ndarray, ...]:
        raise _needs_body(name)

    operands = [Operand("operands", optional=True, variadic=True)]
    operator(name, doc, operands, [Operand("results", variadic=True)], infer, evaluate, attrs)


_declare("Fused", "one kernel: the nodes of its body, whose inputs are the node's operands", {})
_declare(
    "Scan",
    "runs its body along axis 0: states, scan operands, captures in; final states, stacked results out",
    {
        "num_states": Attr("int", required=True),
        "num_scans": Attr("int", required=True),
        "reverse": Attr("bool", False),
    },
)


def infer_node(node: Node) -> tuple[TensorType, ...]:
    """Result types of a node, with or without a body. Raises VerifyError where operands do not fit."""
    if node.op == "Fused":
        return _fused_types(node)
    if node.op == "Scan":
        return _scan_types(node)
    return operator_of(node).infer([None if v is None else v.type for v in node.inputs], node.attrs)


def body_of(node: Node) -> Function:
    """The one body. Raises VerifyError when there is another number of them."""
    if len(node.bodies) != 1:
        raise VerifyError(f"{node.op}: has {len(node.bodies)} bodies, expected 1")
    return node.bodies[0]


def scan_length(node: Node) -> int:
    """Number of steps: the common leading extent of the scan operands."""
    attrs = attributes(node)
    states, scans = attrs["num_states"], attrs["num_scans"]
    if scans < 1 or len(node.inputs) < states + scans:
        raise VerifyError(f"Scan: {len(node.inputs)} operands do not hold {states} states and {scans} scans")
    lengths = {node.operand(index).shape[:1] for index in range(states, states + scans)}
    if len(lengths) != 1 or () in lengths:
        raise VerifyError(f"Scan: scan operands have leading extents {sorted(lengths)}, expected one")
    return int(lengths.pop()[0])


def _fused_types(node: Node) -> tuple[TensorType, ...]:
    body = body_of(node)
    _check_operands(node, body, [None if v is None else v.type for v in node.inputs])
    return tuple(value.type for value in body.outputs)


def _scan_types(node: Node) -> tuple[TensorType, ...]:
    body, attrs, length = body_of(node), attributes(node), scan_length(node)
    states, scans = attrs["num_states"], attrs["num_scans"]
    types: list[TensorType | None] = []
    for index in range(len(node.inputs)):
        type = node.operand(index).type
        sliced = states <= index < states + scans
        types.append(TensorType(type.dtype, type.shape[1:]) if sliced else type)
    _check_operands(node, body, types)
    if len(body.outputs) < states:
        raise VerifyError(f"Scan: the body has {len(body.outputs)} results for {states} states")
    for before, after in zip(types[:states], body.outputs[:states], strict=True):
        if before != after.type:
            raise VerifyError(f"Scan: a state of type {before} becomes {after.type}")
    stacked = (TensorType(v.dtype, (length, *v.shape)) for v in body.outputs[states:])
    return (*(v.type for v in body.outputs[:states]), *stacked)


def _check_operands(node: Node, body: Function, types: Sequence[TensorType | None]) -> None:
    if len(types) != len(body.inputs):
        raise VerifyError(f"{node.op}: {len(types)} operands for {len(body.inputs)} inputs of the body")
    for given, wanted in zip(types, body.inputs, strict=True):
        if given is not None and given != wanted.type:
            raise VerifyError(f"{node.op}: body input '{wanted.name}' is {wanted.type}, the operand {given}")


def scan(
    build: Builder,
    body: Function,
    states: Sequence[Value],
    scans: Sequence[Value],
    captures: Sequence[Value] = (),
    reverse: bool = False,
) -> list[Value]:
    """Append a Scan node; its results: final states, then stacked results of the body's further outputs."""
    function = build.function
    attrs = {"num_states": len(states), "num_scans": len(scans), "reverse": reverse}
    operands = [*states, *scans, *captures]
    draft = Node("Scan", "scan", list(operands), attrs, [], (body,))
    node = function.make_node("Scan", operands, infer_node(draft), attrs, None, (body,), build.origin)
    position = len(function.nodes) if build.before is None else function.nodes.index(build.before)
    function.nodes.insert(position, node)
    return node.outputs
