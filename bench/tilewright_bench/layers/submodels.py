"""Models of a single layer, cut out of a whole one: the same nodes, weights and shapes, and nothing else.

An engine that does not say what its layers take can be asked for each of them in this form. The nodes are
those that the compiler made one kernel of, so a convolution comes with the addition and the activation behind
it, and every engine may fuse them as it likes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, shape_inference

from tilewright.errors import UsageError
from tilewright_bench.layers.useful_work import needed_flops

OPTIONAL = ""  # how ONNX writes an operand that is left out


@dataclass(frozen=True)
class Submodel:
    """A layer as a model of its own. `key` is equal for layers of equal operators, attributes and shapes,
    whatever their weights.
    """

    ops: tuple[str, ...]
    flops: int | None  # that its result needs; None when it has no products
    key: str
    model: onnx.ModelProto


class Whole:
    """A model with the types of all its values, ready to be cut. Raises UsageError when ONNX cannot infer
    them.
    """

    def __init__(self, path: Path, dims: Mapping[str, int]) -> None:
        model = onnx.load(path)
        _bind(model, dims)
        try:
            inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except shape_inference.InferenceError as error:
            raise UsageError(f"{path}: the shapes inside cannot be inferred: {error}") from error
        graph = inferred.graph
        self._model = inferred
        self._types = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._constants = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}
        self._results = {value.name for value in graph.output}
        self._nodes = {node_name(node): node for node in graph.node}

    @property
    def names(self) -> Collection[str]:
        """The names of all nodes."""
        return self._nodes.keys()

    def owner(self, names: Sequence[str]) -> str | None:
        """The node that the first known of the names is, or that gives the result of that name."""
        makers = {result: name for name, node in self._nodes.items() for result in node.output}
        return next((found for name in names for found in self._found(name, makers)), None)

    def _found(self, name: str, makers: Mapping[str, str]) -> list[str]:
        if name in self._nodes:
            return [name]
        return [makers[name]] if name in makers else []

    def cut(self, names: Collection[str]) -> Submodel:
        """The nodes of these names as a model. Raises UsageError when the shape of an operand is unknown."""
        nodes = [node for name, node in self._nodes.items() if name in names]
        made = {name for node in nodes for name in node.output}
        read = dict.fromkeys(name for node in nodes for name in node.input if name not in (OPTIONAL, *made))
        constants = [self._constants[name] for name in read if name in self._constants]
        stored = [self._stored[name] for name in read if name in self._stored]
        outside = [n for n in read if n not in self._stored and n not in self._constants]
        inputs = [self._type(name) for name in outside]
        outputs = [self._type(name) for name in self._leaving(names, made)]
        graph = helper.make_graph([*constants, *nodes], "layer", inputs, outputs, stored)
        model = helper.make_model(
            graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version
        )
        ops = tuple(node.op_type for node in nodes)
        return Submodel(ops, needed_flops(nodes, self._extents()), self._key(nodes), model)

    def _leaving(self, names: Collection[str], made: Collection[str]) -> list[str]:
        """Results that other nodes or the caller read."""
        others = [node for name, node in self._nodes.items() if name not in names]
        read = {name for node in others for name in node.input} | self._results
        return [name for name in made if name in read]

    def _type(self, name: str) -> onnx.ValueInfoProto:
        value: onnx.ValueInfoProto | None = self._types.get(name)
        if value is None or any(not dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim):
            raise UsageError(f"the shape of '{name}' is not known before the model runs")
        return value

    def _extents(self) -> dict[str, list[int]]:
        found = {
            name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for name, value in self._types.items()
        }
        return found | {name: list(tensor.dims) for name, tensor in self._stored.items()}

    def _key(self, nodes: Sequence[onnx.NodeProto]) -> str:
        numbers: dict[str, int] = {}
        lines = []
        for node in nodes:
            attributes = sorted(item.SerializeToString(deterministic=True).hex() for item in node.attribute)
            values = [
                (numbers.setdefault(name, len(numbers)), self._shape(name), name in self._stored)
                for name in (*node.input, *node.output)
            ]
            lines.append(repr((node.op_type, attributes, values)))
        return sha256("\n".join(lines).encode()).hexdigest()[:16]

    def _shape(self, name: str) -> Any:
        if name in self._stored:
            return (self._stored[name].data_type, tuple(self._stored[name].dims))
        if name in self._types:
            tensor = self._types[name].type.tensor_type
            return (tensor.elem_type, tuple(dim.dim_value for dim in tensor.shape.dim))
        return name if name == OPTIONAL else None


def node_name(node: onnx.NodeProto) -> str:
    """The node's name, or that of its first output when it is empty, as the compiler calls it."""
    return node.name or next((name for name in node.output if name), node.op_type)


def _bind(model: onnx.ModelProto, dims: Mapping[str, int]) -> None:
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
