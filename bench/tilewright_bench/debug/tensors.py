"""The tensors inside an ONNX model, in topological order, and models that return them too."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import shape_inference

from tilewright.errors import ImportModelError, UsageError
from tilewright_bench.engines.base import Array

PROTOBUF_LIMIT = 2_000_000_000  # bytes of one message, some of them kept for the rest of the file


@dataclass(frozen=True)
class TensorOfModel:
    """A result of a node. `position` counts nodes in topological order, `operands` are what it reads."""

    name: str
    position: int
    node: str
    op: str
    operands: tuple[str, ...]


class ModelTensors:
    """A model with numbers for all sizes of its inputs, and every tensor in it that something reads.

    What a body of If, Loop or Scan computes inside is not among them: the node's results are.
    """

    def __init__(self, path: Path, dims: Mapping[str, int], given: Mapping[str, Array]) -> None:
        """dims and the shapes of `given` arrays give sizes; one that they leave open becomes 1 and is in
        `assumed`. Raises UsageError for inputs that the model has not or whose shape does not fit,
        ImportModelError for a file that is no model, and for a cycle.
        """
        try:
            self._model = onnx.load(path)
        except (DecodeError, OSError) as error:
            raise ImportModelError(f"{path} is not an ONNX model, or only a part of one: {error}") from error
        graph = self._model.graph
        if not graph.output:
            raise ImportModelError(f"{path} is not an ONNX model: it has no outputs")
        self.assumed = _bind(graph, dims, given)
        self.outputs = tuple(value.name for value in graph.output)
        self._reads = [tuple(dict.fromkeys(_reads(node))) for node in graph.node]
        self._order = _order(graph, self._reads)

    @cached_property
    def all(self) -> tuple[TensorOfModel, ...]:
        """Every tensor that the model's outputs depend on, these included, in topological order."""
        return self.before(self.outputs)

    def before(self, outputs: Collection[str]) -> tuple[TensorOfModel, ...]:
        """The tensors that decide these outputs, and those outputs, in topological order."""
        nodes = self._model.graph.node
        needed, wanted = set[int](), set(outputs)
        for position in reversed(self._order):
            if any(name in wanted for name in nodes[position].output):
                needed.add(position)
                wanted.update(self._reads[position])
        found = []
        for place, position in enumerate(self._order):
            node = nodes[position]
            if position not in needed or node.op_type == "Constant":
                continue
            for name in node.output:
                if name in wanted and self._is_tensor(name):
                    label = node.name or name
                    found.append(TensorOfModel(name, place, label, node.op_type, self._reads[position]))
        return tuple(found)

    def save(self, path: Path, exposed: Sequence[str]) -> None:
        """Write the model with `exposed` tensors as further outputs."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        extra = [name for name in dict.fromkeys(exposed) if name not in self.outputs]
        # Without a type: every engine finds it out by itself, and a wrong one would be refused.
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra)
        onnx.save(model, path, save_as_external_data=model.ByteSize() > PROTOBUF_LIMIT)

    @cached_property
    def _not_tensors(self) -> frozenset[str]:
        inferred = shape_inference.infer_shapes(self._model).graph
        values = (*inferred.value_info, *inferred.output)
        return frozenset(v.name for v in values if v.type.WhichOneof("value") not in (None, "tensor_type"))

    def _is_tensor(self, name: str) -> bool:
        return name not in self._not_tensors


def frontier(tensors: Sequence[TensorOfModel], outputs: Collection[str], position: int) -> list[str]:
    """What nodes up to `position` hand on to later ones or to the caller: a cut through the model."""
    later = {name for tensor in tensors if tensor.position > position for name in tensor.operands}
    wanted = later | set(outputs)
    return [tensor.name for tensor in tensors if tensor.position <= position and tensor.name in wanted]


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Operands, and what bodies read from outside; names that a body defines itself do no harm."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for body in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            for inner in body.node:
                yield from _reads(inner)
            yield from (value.name for value in body.output)


def _order(graph: onnx.GraphProto, reads: Sequence[Sequence[str]]) -> list[int]:
    """Nodes by number, producers first; the file's own order when that is one, as ONNX asks for."""
    producers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    before = {
        number: [producers[name] for name in names if name in producers] for number, names in enumerate(reads)
    }
    if all(max(others, default=-1) < number for number, others in before.items()):
        return list(before)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError as error:
        node = graph.node[error.args[1][0]]
        raise ImportModelError(
            f"the graph has a cycle through node '{node.name or node.output[0]}'"
        ) from error


def _bind(graph: onnx.GraphProto, dims: Mapping[str, int], given: Mapping[str, Array]) -> tuple[str, ...]:
    """Write sizes into the declarations of inputs and outputs; the names of those that had to be assumed."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in stored}
    unknown = [name for name in given if name not in inputs]
    if unknown:
        raise UsageError(
            f"--input {unknown[0]}: the model has no such input; it takes {', '.join(inputs) or 'none'}"
        )
    sizes = dict(dims)
    for name, array in given.items():
        _bind_shape(name, inputs[name].type.tensor_type.shape.dim, array.shape, sizes)
    assumed: dict[str, None] = {}
    for name, value in inputs.items():
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                continue
            label = dim.dim_param or f"{name}:{axis}"
            if label not in sizes:
                assumed[label] = None
            dim.dim_value = sizes.setdefault(label, 1)
    for value in graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return tuple(assumed)


def _bind_shape(name: str, declared: Any, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Sizes of one input, from an array for it; declared: its dimensions, which get their numbers."""
    if len(declared) != len(shape):
        raise UsageError(
            f"--input {name}: shape {list(shape)}; the model declares {len(declared)} dimensions"
        )
    for axis, (dim, size) in enumerate(zip(declared, shape, strict=True)):
        fixed = dim.dim_value if dim.HasField("dim_value") else None
        known = sizes.setdefault(dim.dim_param or f"{name}:{axis}", size) if fixed is None else fixed
        if known != size:
            what = dim.dim_param or f"axis {axis}"
            raise UsageError(f"--input {name}: shape {list(shape)}, but {what} is {known}")
        dim.dim_value = size
