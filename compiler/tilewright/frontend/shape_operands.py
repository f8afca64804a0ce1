"""Which operands decide shapes, and which inputs of a model they depend on.

A shape operand must be known before kernels are made. An input that feeds shape operands only, directly or
through arithmetic on sizes, is therefore bound by its value. A few declared numbers that are data as well are
bound for the shape operands alone: as data they are read at run time. No other input is ever bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto, ValueInfoProto

from tilewright.frontend.support import subgraphs

_STANDARD = ("", "ai.onnx")
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

# Positions of the operands that decide the shape of a result, which elements it is made of, or what the
# operator is.
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
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
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

# What models do with sizes on their way to a shape operand. An If chooses between sizes.
_ARITHMETIC = frozenset(
    {
        *("Abs", "Add", "Cast", "CastLike", "Ceil", "Concat", "Div", "Equal", "Expand", "Floor", "Gather"),
        *("Identity", "If", "Max", "Min", "Mod", "Mul", "Neg", "ReduceMax", "ReduceMin", "ReduceProd"),
        *("ReduceSum", "Relu", "Reshape", "Round", "Slice", "Split", "Squeeze", "Sub", "Unsqueeze", "Where"),
    }
)

# As many numbers as a list of sizes may have to be bound although it is data as well.
_FEW = 16


@dataclass(frozen=True)
class Bindable:
    """Inputs that are bound by value.

    only: they feed nothing but shape operands; also: they are data as well.
    """

    only: frozenset[str]
    also: frozenset[str]


def bindable_inputs(graph: GraphProto) -> Bindable:
    """The inputs of a model on which shape operands depend."""
    nodes = list(_all_nodes(graph))
    producers = {name: node for node in nodes for name in node.output if name}
    data = {info.name for info in graph.output}
    for node in nodes:
        if not _is_arithmetic(node):
            data |= set(_data_operands(node))
            data |= {info.name for body in subgraphs(node) for info in body.output}
    shapes = {name for node in nodes for name in _shape_operands(node)}
    # what arithmetic makes for an operand, it makes from its own operands
    data, shapes = _traced(data, producers), _traced(shapes, producers)
    constant = {tensor.name for tensor in graph.initializer}
    found = [info for info in graph.input if info.name in shapes and info.name not in constant]
    return Bindable(
        only=frozenset(info.name for info in found if info.name not in data),
        also=frozenset(info.name for info in found if info.name in data and _is_short(info)),
    )


def _traced(names: set[str], producers: Mapping[str, NodeProto]) -> set[str]:
    """The names, and all that arithmetic computes them from."""
    found = set(names)
    pending = list(names)
    while pending:
        name = pending.pop()
        producer = producers.get(name)
        if producer is None:
            continue
        further = set(_sources(producer, name)) - found
        found |= further
        pending += further
    return found


def _sources(node: NodeProto, name: str) -> Iterator[str]:
    """What the result `name` is computed from, as far as it is arithmetic."""
    if not _is_arithmetic(node):
        return
    yield from _data_operands(node)
    index = list(node.output).index(name)
    yield from (body.output[index].name for body in subgraphs(node) if index < len(body.output))


def _is_short(info: ValueInfoProto) -> bool:
    """Whether an input is declared as one number, or as a list of a few."""
    tensor = info.type.tensor_type
    extents = [dim.dim_value if dim.HasField("dim_value") else _FEW + 1 for dim in tensor.shape.dim]
    return tensor.HasField("shape") and len(extents) <= 1 and all(0 < extent <= _FEW for extent in extents)


def _is_arithmetic(node: NodeProto) -> bool:
    return node.domain in _STANDARD and node.op_type in _ARITHMETIC


def _positions(node: NodeProto) -> tuple[int, ...]:
    """Positions of a node's shape operands.

    The number of turns is one when a Loop stacks what they give. Whether Dropout trains decides what it is,
    and then its ratio decides which values survive.
    """
    if node.domain not in _STANDARD:
        return ()
    if node.op_type == "Dropout":
        return (1, 2) if len(node.input) > 2 and node.input[2] else ()
    if node.op_type == "Loop":
        return (0,) if len(node.output) > max(len(node.input) - 2, 0) else ()
    return SHAPE_OPERANDS.get(node.op_type, ())


def _data_operands(node: NodeProto) -> Iterator[str]:
    if node.domain in _STANDARD and node.op_type in _OF_SHAPES:
        return
    shapes = _positions(node)
    yield from (name for index, name in enumerate(node.input) if name and index not in shapes)


def _shape_operands(node: NodeProto) -> Iterator[str]:
    return (node.input[index] for index in _positions(node) if index < len(node.input) and node.input[index])


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
