"""What a reader of one ONNX node sees: its operands, its attributes, and the graph that it writes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from onnx import AttributeProto, GraphProto

from tilewright.errors import ImportModelError
from tilewright.frontend.registry import Attributes
from tilewright.graph.ir import Constant, Function, Node, Placeholder, Value
from tilewright.ops.operator import REGISTRY, Builder
from tilewright.types import TensorType

# Shape arithmetic works on a few numbers; anything larger is left to the constant-folding pass.
_SMALL = 1024
# A shape operand may be computed from larger constants, but not from whole weights.
_LARGEST = 1 << 20


def _same(value: Any) -> Any:
    return value


# ONNX writes flags as integers; the declarations say which are which.
_PYTHON: dict[str, Callable[[Any], Any]] = {"int": int, "bool": bool, "float": float, "ints": tuple}


@dataclass(frozen=True)
class Body:
    """A sub-graph that was read. captures: the function's inputs that stand for values of the graph around
    it, by these; they come behind the inputs that the sub-graph itself has.
    """

    function: Function
    captures: dict[Value, Value]


class SubgraphReader(Protocol):
    """Reads sub-graphs in the scope of a node; symbols: numbers for sizes that depend on data."""

    symbols: Iterator[int]

    def body(
        self, graph: GraphProto, inputs: Sequence[TensorType], known: Mapping[int, np.ndarray]
    ) -> Body: ...

    def inlined(self, graph: GraphProto, inputs: Sequence[Value] = ()) -> list[Value]: ...

    def named(self, name: str) -> Value | None: ...

    def declared_shape(self, name: str) -> list[int | None]: ...


class Site:
    """One ONNX node while it is read.

    name: the node's name, or that of its first output; since: the version of the operator in use; `emit` adds
    graph nodes. All problems are raised as ImportModelError that names the node.
    """

    def __init__(
        self,
        op: str,
        name: str,
        since: int,
        attributes: Attributes,
        operands: Sequence[Value | None],
        outputs: Sequence[str],
        builder: Builder,
        base_dir: Path | None,
        reader: SubgraphReader,
    ) -> None:
        self.op = op
        self.name = name
        self.since = since
        self.attributes = attributes
        self.operands = operands
        self.outputs = outputs
        self.builder = builder
        self.base_dir = base_dir
        self.reader = reader

    def fail(self, reason: str) -> ImportModelError:
        """The error to raise for this node."""
        return ImportModelError(f"node '{self.name}' ({self.op}): {reason}")

    # Attributes. Their types have been checked against ONNX's schema, so a present one has the right type.

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute or its default; ONNX keeps real attributes, defaults included, in single precision."""
        value = self.attributes.get(name, default)
        return float(np.float32(value)) if isinstance(value, float) else value

    def flag(self, name: str, default: int = 0) -> bool:
        """An integer attribute that means yes or no."""
        return bool(self.attributes.get(name, default))

    def axis(self, rank: int, default: int, name: str = "axis") -> int:
        """The non-negative axis that an attribute names."""
        return self.normal_axis(self.attributes.get(name, default), rank)

    def normal_axis(self, axis: int, rank: int) -> int:
        """A possibly negative axis as a non-negative one."""
        if not -rank <= axis < rank:
            raise self.fail(f"axis {axis} does not exist in a tensor of rank {rank}")
        return axis % rank

    # Operands.

    def has(self, index: int) -> bool:
        """Whether the operand is given."""
        return index < len(self.operands) and self.operands[index] is not None

    def optional(self, index: int) -> Value | None:
        return self.operands[index] if index < len(self.operands) else None

    def operand(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise self.fail(f"operand {index} is missing")
        return value

    def all_operands(self) -> list[Value]:
        """The operands of a variadic operator."""
        return [self.operand(index) for index in range(len(self.operands))]

    def ints(self, index: int) -> tuple[int, ...]:
        """A shape operand: integers that must be known when the model is read."""
        value = self.operand(index)
        if not value.dtype.is_integer or len(value.shape) > 1:
            raise self.fail(f"operand {index} must be a list of integers, it is {value.type}")
        return tuple(int(number) for number in self.known(index).reshape(-1))

    def known_if_constant(self, index: int) -> np.ndarray | None:
        """An operand's value when it follows from constants; None when it does not, or is omitted."""
        value = self.optional(index)
        try:
            return None if value is None else evaluate_constant(value)
        except _NotConstantError:
            return None

    def known(self, index: int) -> np.ndarray:
        """An operand's value, computed from constants when need be."""
        value = self.operand(index)
        try:
            return evaluate_constant(value)
        except _NotConstantError as error:
            raise self.fail(
                f"operand {index} ('{value.name}') must be known when the model is read, "
                f"but {error}; make it an initializer, or simplify the model before the import"
            ) from error

    def is_known(self, index: int) -> bool:
        """Whether an operand's value follows from constants."""
        try:
            evaluate_constant(self.operand(index))
        except _NotConstantError:
            return False
        return True

    # Sub-graphs.

    def graph(self, name: str) -> GraphProto:
        """A sub-graph among the attributes; the operator's schema requires it."""
        attribute: AttributeProto = self.attributes[name]
        return attribute.g

    def body(
        self,
        graph: GraphProto,
        inputs: Sequence[TensorType] = (),
        known: Mapping[int, np.ndarray] | None = None,
    ) -> Body:
        """A sub-graph as a function of its own; known: the inputs that are constants."""
        return self.reader.body(graph, inputs, known or {})

    # The graph.

    def named(self, name: str) -> Value | None:
        """The value that an ONNX name stands for; None when nothing read so far produces it, and
        in sub-graphs.
        """
        return self.reader.named(name)

    def declared_shape(self) -> list[int | None]:
        """The shape that the model declares for the first result, as of `GraphReader.declared_shape`."""
        return self.reader.declared_shape(self.outputs[0])

    def cut(self, value: Value, axis: int, count: Value, name: str) -> Value:
        """The first `count` elements along an axis; name: of the size, the same for sizes that are equal."""
        return self.emit("Cut", value, count, axis=axis, count=name)

    def new_size(self) -> str:
        """A name for a size that depends on data."""
        return f"n{next(self.reader.symbols)}"

    def constant(self, data: np.ndarray) -> Value:
        return self.builder.constant(data, f"{self.name}.const")

    def scalar(self, number: float, like: Value) -> Value:
        """A constant of rank 0 in another value's element type."""
        return self.constant(np.array(number).astype(like.dtype.numpy))

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """A graph node of one result."""
        return self.emit_all(op, *inputs, **attrs)[0]

    def emit_all(self, op: str, *inputs: Value | None, **attrs: Any) -> list[Value]:
        """A graph node; all its results. Small integer computations on constants are done at once."""
        kinds = {key: attr.kind for key, attr in REGISTRY[op].attrs.items()}
        typed = {key: _PYTHON.get(kinds[key], _same)(value) for key, value in attrs.items()}
        outputs = self.builder.ops(op, *inputs, **typed)
        node = outputs[0].producer
        assert node is not None
        if not _folds(node):
            return outputs
        folded = _evaluate_node(node, [_data(value) for value in node.inputs])
        self.builder.function.nodes.pop()  # the builder appends
        return [
            self.builder.function.constant(array, value.name)
            for value, array in zip(outputs, folded, strict=True)
        ]

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The value in another shape of as many elements; itself when that is its shape already."""
        target = tuple(shape)
        if prod(target) != prod(value.shape):
            raise self.fail(f"cannot give {value.type} the shape {list(target)}")
        return value if target == value.shape else self.emit("Reshape", value, shape=target)


@dataclass(eq=False)
class SequenceValue(Value):
    """A sequence of tensors whose length is known when the model is read. It is no value of the graph: its
    type says nothing.
    """

    elements: tuple[Value, ...] = ()


@dataclass(eq=False)
class KnownInput(Placeholder):
    """An input that shape operands know the value of; as data it is read at run time."""

    data: np.ndarray = field(default_factory=lambda: np.zeros(()), repr=False)


class _NotConstantError(Exception):
    """Says what a value depends on."""


def small_constant(value: Value, known_inputs: bool = True) -> np.ndarray | None:
    """The value when it has few elements and follows from constants (and known inputs)."""
    if prod(value.shape) > _SMALL:
        return None
    try:
        return evaluate_constant(value, known_inputs)
    except _NotConstantError:
        return None


def evaluate_constant(value: Value, known_inputs: bool = True) -> np.ndarray:
    """A value computed from constants and known inputs; iterative, because graphs can be deep."""
    known: dict[int, np.ndarray] = {}
    stack = [value]
    while stack:
        current = stack[-1]
        if id(current) in known:
            stack.pop()
            continue
        if isinstance(current, Constant) or (known_inputs and isinstance(current, KnownInput)):
            known[id(current)] = current.data
            continue
        node = current.producer
        if node is None:
            raise _NotConstantError(f"it depends on the input '{current.name}'")
        if node.bodies:
            raise _NotConstantError(f"it is computed by the control flow of node '{node.name}'")
        if prod(current.shape) > _LARGEST:
            raise _NotConstantError(f"it is computed through the large tensor '{current.name}'")
        missing = [v for v in node.inputs if v is not None and id(v) not in known]
        if missing:
            stack += missing
            continue
        results = _evaluate_node(node, [None if v is None else known[id(v)] for v in node.inputs])
        known |= {id(output): array for output, array in zip(node.outputs, results, strict=True)}
    return known[id(value)]


def _data(value: Value | None) -> np.ndarray | None:
    return value.data if isinstance(value, Constant) else None


def _evaluate_node(node: Node, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    return REGISTRY[node.op].evaluate(arrays, node.attrs)


def _folds(node: Node) -> bool:
    given = [value for value in node.inputs if value is not None]
    if not given or not all(isinstance(value, Constant) for value in given):
        return False
    small = all(prod(value.shape) <= _SMALL for value in (*given, *node.outputs))
    return small and not any(value.dtype.is_float for value in node.outputs)
