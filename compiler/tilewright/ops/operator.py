"""What an operator is: one declaration from which everything else follows.

A file of `ops/` declares operators; importing `tilewright.ops.all` fills the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Node, Value
from tilewright.loops.ir import Kernel
from tilewright.tensor.ir import Tensor
from tilewright.types import TensorType

Attrs = Mapping[str, Any]


class Fusion(IntEnum):
    """TVM's classes of operators (section 3), refined as its later sources do; larger is harder to fuse."""

    ELEMENTWISE = 0  # output element i needs input element i only
    BROADCAST = 1  # likewise, with broadcast operands
    INJECTIVE = (
        2  # one input element an output element, at a computed place: transpose, concat, slice, pad, gather
    )
    REDUCTION = 3  # reductions; injective inputs may be fused
    COMPLEX = 4  # conv, matmul: elementwise operators may be fused to the output
    OPAQUE = 5  # never fused


@dataclass(frozen=True)
class Operand:
    """An input or output. types: names of allowed element types, empty for any; variadic: takes the rest."""

    name: str
    types: tuple[str, ...] = ()
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Attr:
    """An attribute. Not required and without a default, it may be absent.

    kind: int, float, str, bool, ints, floats, dtype, storage or array.
    """

    kind: str
    default: Any = None
    required: bool = False


Infer = Callable[[Sequence[TensorType | None], Attrs], tuple[TensorType, ...]]
Evaluate = Callable[[Sequence[np.ndarray | None], Attrs], tuple[np.ndarray, ...]]
Compute = Callable[[Sequence[Tensor | None], Attrs, Sequence[TensorType]], tuple[Tensor, ...]]
Loops = Callable[[Sequence[TensorType | None], Attrs, Sequence[TensorType]], Kernel]
Lower = Callable[["Builder", Node], tuple[Value, ...]]


@dataclass(frozen=True)
class Operator:
    """One operator.

    doc: one line for the documentation table.
    infer: operand types -> result types; raises VerifyError with what was expected and what was found.
    evaluate: the NumPy meaning, on plain arrays, in the operands' own precision (float64 in, float64 out).
    Its meaning for targets is exactly one of
    lower: an equal sub-graph of simpler operators, built with the Builder;
    compute: tensor expressions of the results, on logical indices;
    loops: a loop program, where order or writes depend on data (opaque to fusion).
    """

    name: str
    doc: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    infer: Infer
    evaluate: Evaluate
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    fusion: Fusion = Fusion.OPAQUE
    lower: Lower | None = None
    compute: Compute | None = None
    loops: Loops | None = None


REGISTRY: dict[str, Operator] = {}


def declare(operator: Operator) -> Operator:
    """Add an operator to the registry. A second declaration of a name is a mistake."""
    if operator.name in REGISTRY:
        raise VerifyError(f"operator '{operator.name}' is declared twice")
    REGISTRY[operator.name] = operator
    return operator


def operator_of(node: Node) -> Operator:
    """The declaration of a node's operator. Raises VerifyError for an unknown one."""
    found = REGISTRY.get(node.op)
    if found is None:
        raise VerifyError(f"node '{node.name}': operator '{node.op}' is not declared")
    return found


@dataclass
class Builder:
    """Appends nodes to a function, inferring their types; they are inserted before `before` when given."""

    function: Function
    before: Node | None = None
    origin: tuple[str, ...] = ()

    def op(self, name: str, *inputs: Value | None, label: str | None = None, **attrs: Any) -> Value:
        """A node of one result."""
        return self.ops(name, *inputs, label=label, **attrs)[0]

    def ops(self, name: str, *inputs: Value | None, label: str | None = None, **attrs: Any) -> list[Value]:
        """A node; all its results. Absent attributes take the declared default."""
        declaration = REGISTRY[name]
        values = {key: attr.default for key, attr in declaration.attrs.items() if attr.default is not None}
        values |= {key: value for key, value in attrs.items() if value is not None}
        types = declaration.infer([None if v is None else v.type for v in inputs], values)
        wished = None if label is None else self.function.fresh(label)
        node = self.function.make_node(name, inputs, types, values, wished, origin=self.origin)
        position = len(self.function.nodes) if self.before is None else self.function.nodes.index(self.before)
        self.function.nodes.insert(position, node)
        return node.outputs

    def constant(self, data: np.ndarray, name: str = "const") -> Value:
        return self.function.constant(data, name)
