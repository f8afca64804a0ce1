"""From a graph node to the tensor expressions of one kernel.

Stages and placeholders are named by operator and position, never after the model's tensors, so that equal
layers give equal kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import LoweringError
from tilewright.expr import Const, Expr, Read, const, substitute
from tilewright.graph.ir import Constant, Node, Value
from tilewright.lower.target import Group
from tilewright.ops.operator import Fusion, operator_of
from tilewright.tensor.ir import Axis, Reduce, Tensor, map_reads, placeholder, stages_of


def make_group(node: Node) -> Group:
    """The expressions of a primitive or Fused node. Raises LoweringError when an operator has none."""
    nodes, values, results = _contents(node)
    tensors: dict[Value, Tensor] = {}
    inputs = []
    for position, (value, inner) in enumerate(values):
        tensor = placeholder(value.shape, value.dtype, f"x{position}")
        tensors[inner] = tensor
        inputs.append((tensor, value.type))
    used: set[str] = {tensor.name for tensor, _ in inputs}
    seen = {id(tensor.stage) for tensor, _ in inputs}
    anchors: list[tuple[int, Tensor, str]] = []
    for inner_node in nodes:
        outputs = _expressions(inner_node, tensors, node)
        _rename(outputs, seen, used, inner_node.op.lower())
        tensors |= dict(zip(inner_node.outputs, outputs, strict=True))
        kind = operator_of(inner_node).fusion
        anchors += [(kind, _main_stage(outputs, kind), inner_node.op), (0, outputs[0], inner_node.op)]
    if not nodes:
        raise LoweringError(f"node '{node.name}': nothing to compute")
    # what nobody reads cannot decide: the largest of one element is at 0, whatever the element is
    reached = {id(stage) for stage in stages_of([tensors[value] for value in results])}
    _, anchor, anchor_op = max((a for a in anchors if id(a[1].stage) in reached), key=lambda a: a[0])
    return Group(
        "_".join(n.op.lower() for n in nodes),
        tuple(t for t, _ in inputs),
        tuple(t for _, t in inputs),
        tuple(tensors[value] for value in results),
        tuple(value.type for value in node.outputs),
        anchor,
        anchor_op,
        tuple(n.op for n in nodes),
    )


def kernel_operands(node: Node) -> list[Value]:
    """The node's inputs that become parameters of its kernel: present, once each, and no literal."""
    _, values, _ = _contents(node)
    return [value for value, _ in values]


def _contents(node: Node) -> tuple[list[Node], list[tuple[Value, Value]], list[Value]]:
    """Inner nodes, (outer value, inner value) of the parameters, inner results."""
    if node.op != "Fused":
        distinct = dict.fromkeys(v for v in node.inputs if v is not None)
        return [node], [(v, v) for v in distinct if literal(v) is None], list(node.outputs)
    (body,) = node.bodies
    pairs = zip(node.inputs, body.inputs, strict=True)
    return body.nodes, [(outer, inner) for outer, inner in pairs if outer is not None], body.outputs


def literal(value: Value) -> Const | None:
    """The constant that a value of a single element is, to stand in the kernel's code."""
    if not isinstance(value, Constant) or value.data.size != 1 or value.type.storage.tag:
        return None
    if value.dtype.is_code:
        return None
    return const(value.data.reshape(-1)[0].item(), value.dtype)


def _expressions(node: Node, tensors: dict[Value, Tensor], outer: Node) -> tuple[Tensor, ...]:
    declaration = operator_of(node)
    if declaration.compute is None:
        raise LoweringError(
            f"node '{outer.name}': operator {node.op} has no tensor expression"
            + ("; run the pass 'lower' first" if declaration.lower else "")
        )
    operands: list[Tensor | None] = []
    literals: dict[int, Const] = {}
    for position, value in enumerate(node.inputs):
        found = None if value is None else tensors.get(value)
        number = literal(value) if value is not None and found is None else None
        if number is not None and value is not None:
            found = placeholder(value.shape, value.dtype, f"literal{position}")
            literals[id(found)] = number
        operands.append(found)
    outputs = declaration.compute(operands, node.attrs, [value.type for value in node.outputs])
    if literals:
        _insert_literals(outputs, literals)
    return outputs


def _insert_literals(outputs: Sequence[Tensor], literals: dict[int, Const]) -> None:
    def rule(e: Expr) -> Expr | None:
        return literals.get(id(e.source)) if isinstance(e, Read) else None

    for stage in stages_of(outputs):
        stage.bodies = tuple(map_reads(body, rule) for body in stage.bodies)


def _rename(outputs: Sequence[Tensor], seen: set[int], used: set[str], op: str) -> None:
    """Unique names for new stages and their axes, the last stage after the operator."""
    new = [stage for stage in stages_of(outputs) if id(stage) not in seen]
    for stage in new:
        seen.add(id(stage))
        base = op if stage is new[-1] else f"{op}_{len(used)}"
        name = base if base not in used else f"{base}_{len(used)}"
        used.add(name)
        axes = [Axis(f"{name}.i{i}", a.extent) for i, a in enumerate(stage.axes)]
        reduced = {a: Axis(f"{name}.r{i}", a.extent, "reduce") for i, a in enumerate(stage.reduce_axes)}
        bindings: dict[str, Expr] = {o.name: n.var for o, n in zip(stage.axes, axes, strict=True)}
        bindings |= {old.name: axis.var for old, axis in reduced.items()}
        stage.bodies = tuple(_rebound(body, bindings, reduced) for body in stage.bodies)
        stage.name, stage.axes = name, tuple(axes)


def _rebound(body: Expr, bindings: dict[str, Expr], reduced: dict[Axis, Axis]) -> Expr:
    if not isinstance(body, Reduce):
        return substitute(body, bindings)
    values = tuple(substitute(v, bindings) for v in body.values)
    return Reduce(body.reducer, values, tuple(reduced[a] for a in body.axes), body.index, body.dtype)


def _main_stage(outputs: Sequence[Tensor], kind: Fusion) -> Tensor:
    """The reduction of a complex operator or a reduction, else the result."""
    if kind in (Fusion.COMPLEX, Fusion.REDUCTION):
        for stage in reversed(stages_of(outputs)):
            if stage.reduce_axes:
                return stage.outputs[0]
    return outputs[0]
