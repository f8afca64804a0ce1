"""Operators with bodies: Fused (the result of fusion), Scan, Loop and If.

Their result types and values follow from the bodies, not from operands and attributes alone: `infer_node`
gives the types of any node, `evaluate_function` the values. What a body reads from outside are its captures:
operands of the node, and inputs of the body at the same places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import BOOL, I64
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.declaration import attributes, operator
from tilewright.ops.operator import Attr, Attrs, Builder, Operand, operator_of
from tilewright.types import TensorType

CONTROL_FLOW = frozenset({"Scan", "Loop", "If"})
LOOP_OPERANDS = 2  # of a Loop, in front of those that its body sees: trip count and condition


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
_declare(
    "Loop",
    "runs its body: trip count?, condition?, states, captures in; final states, stacked results out, of "
    "which only the turns that ran have a meaning. `conditional`: the body's first result says whether to "
    "go on. max_trips: the largest number of turns, -1 when nothing limits it",
    {
        "num_states": Attr("int", required=True),
        "max_trips": Attr("int", -1),
        "conditional": Attr("bool", False),
    },
)
_declare("If", "runs its first body where the condition holds, else its second: condition, captures in", {})


def infer_node(node: Node) -> tuple[TensorType, ...]:
    """Result types of a node, with or without a body. Raises VerifyError where operands do not fit."""
    rule = {"Fused": _fused_types, "Scan": _scan_types, "Loop": _loop_types, "If": _if_types}.get(node.op)
    if rule is not None:
        return rule(node)
    return operator_of(node).infer([None if v is None else v.type for v in node.inputs], node.attrs)


def body_of(node: Node) -> Function:
    """The one body. Raises VerifyError when there is another number of them."""
    if len(node.bodies) != 1:
        raise VerifyError(f"{node.op}: has {len(node.bodies)} bodies, expected 1")
    return node.bodies[0]


def leading_operands(node: Node) -> int:
    """How many operands of a node its bodies do not see; the others are the bodies' inputs, in order."""
    return {"Loop": LOOP_OPERANDS, "If": 1}.get(node.op, 0)


def changing_inputs(node: Node) -> int:
    """How many inputs of the body change from turn to turn; those behind them are captures."""
    attrs = attributes(node)
    if node.op == "If":
        return 0
    return int(attrs["num_states"]) + int(attrs.get("num_scans", 0))


def leading_results(node: Node) -> int:
    """How many results of the bodies are none of the node; the others are the node's results, in order."""
    return int(node.op == "Loop" and bool(attributes(node)["conditional"]))


def required_results(node: Node) -> int:
    """How many results of the node, from the first on, belong to states and cannot be dropped."""
    return 0 if node.op == "If" else int(attributes(node)["num_states"])


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
    _check_states(node, types[:states], body.outputs)
    return _with_stacks(body.outputs, states, length)


def _loop_types(node: Node) -> tuple[TensorType, ...]:
    body, attrs = body_of(node), attributes(node)
    states, trips = attrs["num_states"], attrs["max_trips"]
    _check_scalar(node, 0, I64, "trip count")
    _check_scalar(node, 1, BOOL, "condition")
    types = [node.operand(index).type for index in range(LOOP_OPERANDS, len(node.inputs))]
    _check_operands(node, body, types)
    results = body.outputs[leading_results(node) :]
    if attrs["conditional"] and (not body.outputs or body.outputs[0].type != TensorType(BOOL, ())):
        raise VerifyError("Loop: the body's first result is no boolean scalar")
    _check_states(node, types[:states], results)
    if trips < 0 and len(results) > states:
        raise VerifyError("Loop: results of each turn are stacked, but the number of turns has no limit")
    return _with_stacks(results, states, max(trips, 0))


def _if_types(node: Node) -> tuple[TensorType, ...]:
    if len(node.bodies) != 2 or not node.inputs:
        raise VerifyError(f"If: has {len(node.bodies)} bodies, expected 2, and a condition")
    _check_scalar(node, 0, BOOL, "condition", optional=False)
    types = [node.operand(index).type for index in range(1, len(node.inputs))]
    for body in node.bodies:
        _check_operands(node, body, types)
    then, orelse = ([value.type for value in body.outputs] for body in node.bodies)
    if then != orelse:
        raise VerifyError(f"If: one body gives {_list(then)}, the other {_list(orelse)}")
    if any(type.is_bounded for type in then):
        raise VerifyError(f"If: a body gives {_list(then)}, a size that depends on data")
    return tuple(then)


def _list(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _check_scalar(node: Node, index: int, dtype: object, what: str, optional: bool = True) -> None:
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None and optional:
        return
    if value is None or value.dtype != dtype or value.shape != ():
        found = "missing" if value is None else str(value.type)
        raise VerifyError(f"{node.op}: the {what} is {found}, expected {dtype}[]")


def _check_states(node: Node, before: Sequence[TensorType | None], after: Sequence[Value]) -> None:
    if len(after) < len(before):
        raise VerifyError(f"{node.op}: the body has {len(after)} results for {len(before)} states")
    for old, new in zip(before, after, strict=False):
        if old != new.type:
            raise VerifyError(f"{node.op}: a state of type {old} becomes {new.type}")


def _with_stacks(results: Sequence[Value], states: int, turns: int) -> tuple[TensorType, ...]:
    stacked = (TensorType(v.dtype, (turns, *v.shape)) for v in results[states:])
    return (*(v.type for v in results[:states]), *stacked)


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
    attrs = {"num_states": len(states), "num_scans": len(scans), "reverse": reverse}
    return with_bodies(build, "Scan", [*states, *scans, *captures], attrs, (body,))


def with_bodies(
    build: Builder,
    op: str,
    operands: Sequence[Value | None],
    attrs: Attrs,
    bodies: tuple[Function, ...],
) -> list[Value]:
    """Append a node with bodies; its results. Raises VerifyError where operands and bodies do not fit."""
    function = build.function
    draft = Node(op, op.lower(), list(operands), dict(attrs), [], bodies)
    node = function.make_node(op, operands, infer_node(draft), attrs, None, bodies, build.origin)
    position = len(function.nodes) if build.before is None else function.nodes.index(build.before)
    function.nodes.insert(position, node)
    return node.outputs
