"""Translates the nodes of one ONNX graph, in topological order, into a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto

from tilewright.errors import ImportModelError, VerifyError
from tilewright.frontend.attributes import read_attributes
from tilewright.frontend.bounded import SIZES_THAT_DEPEND_ON_DATA
from tilewright.frontend.registry import SEQUENCE_OPERATORS, TABLE
from tilewright.frontend.site import Body, KnownInput, SequenceValue, Site, small_constant
from tilewright.frontend.support import node_name, since_version, subgraphs
from tilewright.frontend.tensors import tensor_array
from tilewright.graph.ir import Constant, Function, Node, Placeholder, Value
from tilewright.ops.operator import Builder
from tilewright.types import TensorType

# What NumPy and the type rules raise on absurd sizes and operands; the error names the node, its cause stays.
_REJECTED = (ValueError, TypeError, IndexError, KeyError, ArithmeticError)


class GraphReader:
    """Holds the values of an ONNX graph by name while its nodes are translated into `function`.

    dims: sizes of named dimensions. outer: of a sub-graph, the reader of the graph around it. A sub-graph
    has a function of its own, or is read into the function around it, as if its nodes stood there.
    """

    def __init__(
        self,
        function: Function,
        graph: GraphProto,
        opset: int,
        base_dir: Path | None,
        dims: Mapping[str, int],
        outer: GraphReader | None = None,
    ) -> None:
        if graph.sparse_initializer:
            raise ImportModelError("sparse initializers are not supported; store the model with dense ones")
        self.function = function
        self.opset = opset
        self.base_dir = base_dir
        self.dims = dims
        self._declared = {info.name: info.type for info in (*graph.value_info, *graph.output)}
        self.outer = outer
        self.inline = outer is not None and outer.function is function
        self.captures: dict[Value, Value] = {}  # inputs of the function by the outer value
        self.symbols: Iterator[int] = count() if outer is None else outer.symbols
        self.values: dict[str, Value] = {}
        self.nodes = _sorted_nodes(graph)
        self.initializers: dict[str, TensorProto] = {}
        self._node_names: set[str] = outer._node_names if outer is not None and self.inline else set()
        for value in () if self.inline else function.inputs:
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

    def body(self, graph: GraphProto, inputs: Sequence[TensorType], known: Mapping[int, np.ndarray]) -> Body:
        """A sub-graph as a function. inputs: types of its formal inputs; known: those that are constants."""
        _check_inputs(graph, len(inputs))
        function = Function(graph.name or "body")
        for index, (info, type) in enumerate(zip(graph.input, inputs, strict=True)):
            if index not in known:
                function.add_input(info.name, type)
        reader = GraphReader(function, graph, self.opset, self.base_dir, self.dims, self)
        for index, array in known.items():
            reader.bind(graph.input[index].name, array)
        reader.read_nodes()
        for info in graph.output:
            reader.output(info.name)
        return Body(function, reader.captures)

    def inlined(self, graph: GraphProto, inputs: Sequence[Value] = ()) -> list[Value]:
        """The results of a sub-graph whose nodes are read into this function; inputs: what it is given."""
        _check_inputs(graph, len(inputs))
        reader = GraphReader(self.function, graph, self.opset, self.base_dir, self.dims, self)
        for info, value in zip(graph.input, inputs, strict=True):
            reader._define(info.name, value)
        reader.read_nodes()
        return [reader.result(info.name) for info in graph.output]

    def named(self, name: str) -> Value | None:
        """The value of an ONNX name that is known so far; None in a sub-graph, which sees its part only."""
        return self._value(name) if self.outer is None else None

    def declared_shape(self, name: str) -> list[int | None]:
        """The shape that the model declares for a value: nothing without one, None for an open extent."""
        type = self._declared.get(name)
        return [
            dim.dim_value if dim.HasField("dim_value") else self.dims.get(dim.dim_param)
            for dim in (() if type is None else type.tensor_type.shape.dim)
        ]

    def result(self, name: str) -> Value:
        """The value that a graph output names. Raises ImportModelError when there is none."""
        value = self._value(name)
        if value is None:
            raise ImportModelError(f"graph output '{name}' is produced by no node")
        return value

    def output(self, name: str) -> Value:
        """Append a function output. Outputs are distinct results of nodes: others get an Identity."""
        value = self.result(name)
        if isinstance(value, SequenceValue):
            raise ImportModelError(f"graph output '{name}' is a sequence; only tensors are supported")
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
            self,
        )
        _check_sizes(site)
        _check_sequences(site)
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
            if not self.inline and value.producer is not None and id(value.producer) in made:
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
            if not self.inline:
                constant.name = name
            self.values[name] = constant
        if name not in self.values and self.outer is not None:
            found = self.outer._value(name)
            if found is not None:
                self.values[name] = found if self.inline else self._captured(name, found)
        return self.values.get(name)

    def _captured(self, name: str, outer: Value) -> Value:
        """What stands for a value of the graph around: a constant stays one, else a further input."""
        if isinstance(outer, SequenceValue):
            raise ImportModelError(f"sequence '{name}' is read inside a sub-graph, which is not supported")
        fixed = outer.data if isinstance(outer, Constant) else small_constant(outer, known_inputs=False)
        if fixed is not None:
            return self.function.constant(fixed, name)
        if outer in self.captures:  # one value may have two names
            return self.captures[outer]
        placeholder = self.function.add_input(name, outer.type)
        known = small_constant(outer)
        if known is not None:  # shape operands in the sub-graph know it too
            placeholder = KnownInput(placeholder.name, placeholder.type, data=known)
            self.function.inputs[-1] = placeholder
        self.captures[outer] = placeholder
        return placeholder

    def _name_nodes(self, nodes: Sequence[Node], name: str, results: Sequence[Value | None]) -> None:
        """The node that makes the first result takes the ONNX name, its helpers a name derived from it."""
        last = next((value.producer for value in results if value is not None), None)
        for node in nodes:
            plain = node is last and name not in self._node_names
            node.name = name if plain else self.function.fresh(f"{name}.{node.op.lower()}")
            if plain:
                self.function.fresh(name)
            self._node_names.add(node.name)


def _check_inputs(graph: GraphProto, given: int) -> None:
    if len(graph.input) != given:
        raise ImportModelError(
            f"graph '{graph.name}' has {len(graph.input)} inputs, its operator gives it {given}"
        )


def _check_sizes(site: Site) -> None:
    """Refuse sizes that depend on data where the reader would take the bound for the size."""
    for value in site.operands:
        if value is not None and value.type.is_bounded and site.op not in SIZES_THAT_DEPEND_ON_DATA:
            raise site.fail(
                f"operand '{value.name}' is {value.type}: a size that depends on data is not supported here"
            )


def _check_sequences(site: Site) -> None:
    """Refuse a sequence where a tensor is expected."""
    if site.op in SEQUENCE_OPERATORS:
        return
    for value in site.operands:
        if isinstance(value, SequenceValue):
            raise site.fail("an operand is a sequence, which is not supported here")


def _sorted_nodes(graph: GraphProto) -> list[NodeProto]:
    """Nodes with producers first, otherwise in the file's order. Raises ImportModelError for a cycle."""
    producers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and producers.setdefault(name, index) != index:
                raise ImportModelError(f"tensor '{name}' is defined twice")
    reads = [list(_reads(node)) for node in graph.node]
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
                for name in reads[index]
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


def _reads(node: NodeProto) -> Iterator[str]:
    """Names that a node reads, those that its sub-graphs read from outside included.

    Gradient names what it differentiates in an attribute.
    """
    yield from node.input
    if node.op_type == "Gradient":
        yield from (attribute.s.decode("utf-8", "replace") for attribute in node.attribute if attribute.s)
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from _reads(inner)
        yield from (info.name for info in graph.output)
