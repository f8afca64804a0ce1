"""The graph: Glow's high-level IR (paper section 3.2).

A Module holds Functions, a Function holds Nodes in order. Values are typed edges. Constants carry their array
and may be transformed by passes; Placeholders are symbolic and may not. Nodes are kept in an order in which
every value is produced before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.types import TensorType

Attribute = Any  # int, float, str, bool, DType, tuples of these, or a NumPy array


@dataclass(eq=False)
class Value:
    """A typed edge: result `index` of `producer`."""

    name: str
    type: TensorType
    producer: Node | None = field(default=None, repr=False)
    index: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype


@dataclass(eq=False)
class Placeholder(Value):
    """An input of a function, bound at every run."""


@dataclass(eq=False)
class Constant(Value):
    """A value known at compile time. data: array in the *memory* shape of the type's storage."""

    data: np.ndarray = field(default_factory=lambda: np.zeros(()), repr=False)


@dataclass(eq=False)
class Node:
    """One operation. inputs may hold None for an omitted optional operand.

    bodies: sub-functions of control flow, or the one body of a Fused node, with inputs like the node's.
    origin: names of the model's nodes that this one came from, for errors and reports.
    notes: why passes chose what they chose for it, by subject, as JSON values; no part of the text.
    """

    op: str
    name: str
    inputs: list[Value | None]
    attrs: dict[str, Attribute] = field(default_factory=dict)
    outputs: list[Value] = field(default_factory=list)
    bodies: tuple[Function, ...] = ()
    origin: tuple[str, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> Value:
        """The only output. Raises ValueError when there are several."""
        (value,) = self.outputs
        return value

    def operand(self, index: int) -> Value:
        """A required operand."""
        value = self.inputs[index]
        if value is None:
            raise ValueError(f"node '{self.name}': operand {index} of {self.op} is missing")
        return value


@dataclass(eq=False)
class Function:
    """inputs and outputs in order; nodes in topological order. output_names: as the model calls them."""

    name: str
    inputs: list[Placeholder] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    _counter: dict[str, int] = field(default_factory=dict, repr=False)

    def fresh(self, base: str) -> str:
        """A name that nothing in this function has yet: `base`, else `base.1`, `base.2`, ..."""
        name, count = base, self._counter.get(base, 0)
        while name in self._counter:
            count += 1
            name = f"{base}.{count}"
        self._counter[base] = count
        self._counter.setdefault(name, 0)
        return name

    def add_input(self, name: str, type: TensorType) -> Placeholder:
        value = Placeholder(self.fresh(name), type)
        self.inputs.append(value)
        return value

    def constant(self, data: np.ndarray, name: str = "const", type: TensorType | None = None) -> Constant:
        """A new constant; type defaults to the plain type of the array."""
        array = np.ascontiguousarray(data).reshape(np.shape(data))
        return Constant(self.fresh(name), type or TensorType(DType.of(array.dtype), array.shape), data=array)

    def make_node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        types: Sequence[TensorType],
        attrs: Mapping[str, Attribute] | None = None,
        name: str | None = None,
        bodies: tuple[Function, ...] = (),
        origin: tuple[str, ...] = (),
        output_names: Sequence[str] | None = None,
    ) -> Node:
        """A node with fresh outputs of the given types, not yet inserted."""
        node_name = name or self.fresh(op.lower())
        node = Node(op, node_name, list(inputs), dict(attrs or {}), [], bodies, origin)
        names = output_names or [f"{node_name}.{index}" for index in range(len(types))]
        for index, (wished, type) in enumerate(zip(names, types, strict=True)):
            node.outputs.append(Value(self.fresh(wished), type, node, index))
        return node

    def constants(self) -> list[Constant]:
        """All constants in use, in order of first use."""
        found: dict[int, Constant] = {}
        for value in (*(v for node in self.nodes for v in node.inputs), *self.outputs):
            if isinstance(value, Constant):
                found.setdefault(id(value), value)
        return list(found.values())


@dataclass(eq=False)
class Module:
    """Functions that share constants. main: the function that runs."""

    functions: dict[str, Function] = field(default_factory=dict)
    main: str = "main"

    @property
    def entry(self) -> Function:
        return self.functions[self.main]
