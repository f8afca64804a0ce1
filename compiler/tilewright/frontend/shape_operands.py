"""Which operands decide shapes, and which inputs of a model feed nothing else.

A shape operand must be known before kernels are made. An input that feeds shape operands only, directly or
through arithmetic on sizes, can therefore be bound by its value; no other input ever is.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, NodeProto

from tilewright.frontend.support import subgraphs

_STANDARD = ("", "ai.onnx")
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

# Positions of the operands that decide the shape of a result, or which elements it is made of.
SHAPE_OPERANDS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{f"Reduce{name}": (1,) for name in _REDUCTIONS},
}

# They look at the operand's shape, which is known, and never at its values.
_OF_SHAPES = frozenset({"Shape", "Size"})

# What models do with sizes on their way to a shape operand.
_ARITHMETIC = frozenset(
    {
        *("Abs", "Add", "Cast", "CastLike", "Ceil", "Concat", "Div", "Equal", "Expand", "Floor", "Gather"),
        *(
            "Identity",
            "If",
            "Max",
            "Min",
            "Mod",
            "Mul",
            "Neg",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
        ),
        *("Reshape", "Round", "Slice", "Split", "Squeeze", "Sub", "Unsqueeze", "Where"),
    }
)


def inputs_bound_by_value(graph: GraphProto) -> frozenset[str]:
    """Names of the graph's inputs that are used, and by shape operands only."""
    nodes = list(_all_nodes(graph))
    producers = {name: node for node in nodes for name in node.output if name}
    data = {info.name for info in graph.output}
    for node in nodes:
        if node.op_type != "If":
            data |= {info.name for body in subgraphs(node) for info in body.output}
    for node in nodes:
        if not _is_arithmetic(node):
            data |= set(_data_operands(node))
    pending = list(data)
    while pending:  # what arithmetic makes for a data operand, it makes from data
        producer = producers.get(pending.pop())
        if producer is None or not _is_arithmetic(producer):
            continue
        found = set(_data_operands(producer)) - data
        data |= found
        pending += found
    used = {name for node in nodes for name in node.input}
    constant = {tensor.name for tensor in graph.initializer}
    return frozenset({info.name for info in graph.input} & used - data - constant)


def _is_arithmetic(node: NodeProto) -> bool:
    return node.domain in _STANDARD and node.op_type in _ARITHMETIC


def _data_operands(node: NodeProto) -> Iterator[str]:
    """What the results are made of; those of an If are its branches'."""
    shapes = _shape_operands(node) if node.domain in _STANDARD else ()
    yield from (name for index, name in enumerate(node.input) if name and index not in shapes)
    if node.op_type == "If":
        yield from (info.name for body in subgraphs(node) for info in body.output)


def _shape_operands(node: NodeProto) -> tuple[int, ...]:
    if node.op_type in _OF_SHAPES:
        return (0,)
    if node.op_type == "Loop":  # what its turns give is stacked, as many as the trip count says
        carried = max(len(node.input) - 2, 0)
        return (0,) if len(node.output) > carried else ()
    return SHAPE_OPERANDS.get(node.op_type, ())


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    yield from graph.node
    for body in _bodies(graph):
        yield from body.node


def _bodies(graph: GraphProto) -> Iterator[GraphProto]:
    """The graphs of all attributes, at any depth."""
    pending = [graph]
    while pending:
        for node in pending.pop().node:
            for body in subgraphs(node):
                pending.append(body)
                yield body
