"""Translates the nodes of one ONNX graph, in topological order, into a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto

from tilewright.errors import ImportModelError, VerifyError
from tilewright.frontend.attributes import read_attributes
from tilewright.frontend.registry import TABLE
from tilewright.frontend.site import Site
from tilewright.frontend.support import node_name, since_version
from tilewright.frontend.tensors import tensor_array
from tilewright.graph.ir import Constant, Function, Node, Placeholder, Value
from tilewright.ops.operator import Builder

# What NumPy and the type rules raise on absurd sizes and operands; the error names the node, its cause stays.
_REJECTED = (ValueError, TypeError, IndexError, KeyError, ArithmeticError)


class GraphReader:
    """Holds the values of an ONNX graph by name while its nodes are translated into `function`."""

    def __init__(self, function: Function, graph: GraphProto, opset: int, base_dir: Path | None) -> None:
        self.function = function
        self.opset = opset
        self.base_dir = base_dir
        self.values: dict[str, Value] = {}
        self.nodes = _sorted_nodes(graph)
        self.initializers: dict[str, TensorProto] = {}
        self._node_names: set[str] = set()
        for value in function.inputs:
            self._define(value.name, value)
        for tensor in graph.initializer:
            if not tensor.name or tensor.name in self.initializers:
                raise ImportModelError(f"initializer '{tensor.name}' is defined twice or has no name")
            self.initializers[tensor.name] = tensor
        for name in (name for node in self.nodes for name in node.output):
            if name in self.initializers or name in self.values:
                raise ImportModelError(f"tensor '{name}' is defined twice")
        # Reserved first, so that no generated name takes the name of a tensor that comes later.
        for name in (*self.initializers, *(name for node in self.nodes for name in node.output if name)):
            function.fresh(name)

    def read_nodes(self) -> None:
        """Translate every node. Raises ImportModelError that names the node."""
        for node in self.nodes:
            self._read_node(node)

    def bind(self, name: str, data: np.ndarray) -> None:
        """Make a graph input a constant. Raises ImportModelError when the name is taken."""
        constant = self.function.constant(data, name)
        constant.name = name
        self._define(name, constant)

    def output(self, name: str) -> Value:
        """Append a function output. Outputs are distinct results of nodes: others get an Identity."""
        value = self._value(name)
        if value is None:
            raise ImportModelError(f"graph output '{name}' is produced by no node")
        plain = not isinstance(value, Placeholder | Constant)
        if not plain or any(value is other for other in self.function.outputs):
            builder = Builder(self.function, origin=(name,))
            value = builder.op("Identity", value, label=f"{name}.copy")
        self.function.outputs.append(value)
        self.function.output_names.append(name)
        return value

    def _read_node(self, proto: NodeProto) -> None:
        name = node_name(proto)
        since = since_version(proto, self.opset)
        if since is None:
            raise ImportModelError(f"node '{name}': unknown operator {proto.op_type}")
        operands = [self._operand(proto, wanted) for wanted in proto.input]
        builder = Builder(self.function, origin=(name,))
        site = Site(
            proto.op_type,
            name,
            since,
            read_attributes(proto),
            operands,
            tuple(proto.output),
            builder,
            self.base_dir,
        )
        first = len(self.function.nodes)
        try:
            results = TABLE[proto.op_type, since].read(site)
        except VerifyError as error:
            raise site.fail(str(error).removeprefix(f"{proto.op_type}: ")) from error
        except _REJECTED as error:
            raise site.fail(f"its operands or attributes make no sense ({error!r})") from error
        self._name_nodes(self.function.nodes[first:], name, results)
        self._bind(proto, results, first)

    def _bind(self, proto: NodeProto, results: Sequence[Value | None], first: int) -> None:
        made = {id(node) for node in self.function.nodes[first:]}
        for wished, value in zip(proto.output, results, strict=False):
            if not wished:
                continue
            if value is None:
                raise ImportModelError(f"node '{node_name(proto)}': result '{wished}' is not supported")
            if value.producer is not None and id(value.producer) in made:
                value.name = wished
            self._define(wished, value)

    def _define(self, name: str, value: Value) -> None:
        if name in self.values:
            raise ImportModelError(f"tensor '{name}' is defined twice")
        self.values[name] = value

    def _operand(self, proto: NodeProto, name: str) -> Value | None:
        if not name:
            return None
        value = self._value(name)
        if value is None:
            raise ImportModelError(f"node '{node_name(proto)}' reads '{name}', which nothing produces")
        return value

    def _value(self, name: str) -> Value | None:
        """A value by its ONNX name; initializers become constants when first used."""
        if name not in self.values and name in self.initializers:
            data = tensor_array(self.initializers[name], self.base_dir, f"initializer '{name}'")
            constant = self.function.constant(data, name)
            constant.name = name
            self.values[name] = constant
        return self.values.get(name)

    def _name_nodes(self, nodes: Sequence[Node], name: str, results: Sequence[Value | None]) -> None:
        """The node that makes the first result takes the ONNX name, its helpers a name derived from it."""
        last = next((value.producer for value in results if value is not None), None)
        for node in nodes:
            plain = node is last and name not in self._node_names
            node.name = name if plain else self.function.fresh(f"{name}.{node.op.lower()}")
            if plain:
                self.function.fresh(name)
            self._node_names.add(node.name)


def _sorted_nodes(graph: GraphProto) -> list[NodeProto]:
    """Nodes with producers first, otherwise in the file's order. Raises ImportModelError for a cycle."""
    producers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and producers.setdefault(name, index) != index:
                raise ImportModelError(f"tensor '{name}' is defined twice")
    placed: set[int] = set()
    open_: set[int] = set()
    ordered: list[NodeProto] = []
    for root in range(len(graph.node)):
        stack = [root]
        while stack:
            index = stack[-1]
            if index in placed:
                stack.pop()
                continue
            open_.add(index)
            waiting = [
                producers[name]
                for name in graph.node[index].input
                if name in producers and producers[name] not in placed
            ]
            if any(other in open_ for other in waiting):
                raise ImportModelError(f"the graph has a cycle through node '{node_name(graph.node[index])}'")
            if waiting:
                stack.append(waiting[0])
                continue
            placed.add(index)
            open_.discard(index)
            ordered.append(graph.node[index])
            stack.pop()
    return ordered
