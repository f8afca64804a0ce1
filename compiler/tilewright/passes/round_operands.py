"""Graph pass: products of float32 from operands rounded to bf16, where the target expects that to be faster.

    %y = Conv(%x, %w, %b)   ->   %r = Cast(%x) {to=bf16, flush=true}   %y = Conv(%r, %v, %b) {wide=true}

1. %w is a Constant, or what a loop body captures of one: %v is rounded at once. Products of two computed
   operands are left alone. Products take denormal numbers for zeros, so the Casts may flush them.
2. The Cast of %x fuses into the kernel that computes %x. So that %x need not be stored as well, element-wise
   readers of %x read %r, widened again by a Cast of their own, which fuses with them.
3. Terms are added PAIR at a time: an odd number of channels gets one of zeros behind them, except in groups.
4. Where %x only moves or selects elements (MOVES), it does so with rounded ones: Cast(MaxPool(%a)) ->
   MaxPool(Cast(%a)).

Only modes that permit the error get here: that of rounding two factors to 8 bits, 2^-9 each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tilewright.dtypes import BF16, F32
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.control import changing_inputs, leading_operands
from tilewright.ops.declaration import attributes
from tilewright.ops.operator import Fusion, operator_of
from tilewright.passes.base import FUSED, FunctionPass
from tilewright.passes.costs import PRODUCTS, Costs, choose_algorithm
from tilewright.types import TensorType

PAIR = 2  # values of bf16 that a lane of 32 bits holds
MOVES = ("Concat", "MaxPool", "Reshape", "Slice", "Transpose")


@dataclass(frozen=True)
class RoundOperands(FunctionPass):
    """costs: says which products. Run before storages are chosen, after Winograd."""

    name: ClassVar[str] = "round_operands"
    costs: Costs

    def transform(self, function: Function) -> bool:
        chosen = {
            node
            for node in function.nodes
            if node.op in PRODUCTS and (_is_half_done(node) or self._suits(node, node.operand(1)))
        }
        for node in function.nodes:
            if node.op != FUSED and node.bodies:
                self._round_captures(function, node)
        if chosen:
            _Rounding(function, chosen).run()
        return bool(chosen)

    def _suits(self, node: Node, weights: Value | None) -> bool:
        """Whether a product can be rounded, and the target expects a gain: it is asked for those alone."""
        constant = isinstance(weights, Constant) and weights.dtype == node.operand(0).dtype == F32
        return constant and _pairs(node) and choose_algorithm(node, self.costs) == "bf16"

    def _round_captures(self, function: Function, node: Node) -> None:
        """Weights that a body captures become further operands, rounded, which the body's turn then finds."""
        first = changing_inputs(node)
        for body in node.bodies:
            for inner in (product for product in body.nodes if product.op in PRODUCTS):
                weights = inner.operand(1)
                position = next((i for i, v in enumerate(body.inputs) if v is weights), -1)
                outer = node.inputs[position + leading_operands(node)] if position >= first else None
                if isinstance(outer, Constant) and self._suits(inner, outer):
                    rounded = rounded_constant(function, outer)
                    node.inputs.append(rounded)
                    added = {b: b.add_input(f"{weights.name}:bf16", rounded.type) for b in node.bodies}
                    inner.inputs[1] = added[body]


def _pairs(node: Node) -> bool:
    """Whether terms pair, or can be filled up so that they do: channels of groups cannot."""
    return node.op != "Conv" or node.operand(1).shape[1] % PAIR == 0 or attributes(node)["group"] == 1


def _is_half_done(node: Node) -> bool:
    """Whether the weights of a product came into a body rounded."""
    return (node.operand(0).dtype, node.operand(1).dtype) == (F32, BF16)


def rounded_constant(function: Function, value: Constant) -> Constant:
    """A constant of plain storage in bf16."""
    type = replace(value.type, dtype=BF16)
    return function.constant(BF16.cast(value.data), f"{value.name}:bf16", type)


@dataclass
class _Rounding:
    """The change of one function. chosen: the products whose operands are rounded."""

    function: Function
    chosen: set[Node]
    nodes: list[Node] = field(default_factory=list)
    rounded: dict[Value, Value] = field(default_factory=dict)
    filled: dict[Value, Value] = field(default_factory=dict)

    def run(self) -> None:
        wanted = {node.operand(0) for node in self.chosen}
        moving = self._moving(wanted)
        self._round(self.function.inputs, wanted)
        for node in self.function.nodes:
            if node in self.chosen:
                self._product(node)
            elif node in moving:
                self._move(node)
            else:
                node.inputs = [self._as_read(node, value) for value in node.inputs]
            self.nodes.append(node)
            self._round(node.outputs, wanted)
        self.function.nodes = self.nodes

    def _round(self, values: Sequence[Value], wanted: set[Value]) -> None:
        for value in values:
            if value in wanted:
                self._in_bf16(value)

    def _moving(self, wanted: set[Value]) -> set[Node]:
        """Case 4. wanted grows by the operands of the nodes that are found."""
        found = set()
        for node in reversed(self.function.nodes):
            moves = node.op in MOVES and len(node.outputs) == 1 and node.output in wanted
            kept = node.outputs[0] in self.function.outputs
            if moves and not kept and all(v is not None and v.dtype == F32 for v in node.inputs):
                found.add(node)
                wanted.update(node.operand(i) for i in range(len(node.inputs)))
        return found

    def _product(self, node: Node) -> None:
        filled = node.op == "Conv" and node.operand(1).shape[1] % PAIR > 0
        for position, value in enumerate(map(node.operand, (0, 1))):
            if value.dtype == F32:
                narrow = self._in_bf16(value)
                node.inputs[position] = self._filled(narrow) if filled else narrow
        node.attrs = {**node.attrs, "wide": True}

    def _filled(self, value: Value) -> Value:
        """With one more channel, of zeros."""
        if value in self.filled:
            return self.filled[value]
        after = tuple(int(axis == 1) for axis in range(len(value.shape)))
        shape = tuple(n + more for n, more in zip(value.shape, after, strict=True))
        type, name = replace(value.type, shape=shape), f"{value.name}:filled"
        if isinstance(value, Constant):
            data = np.pad(value.data, [(0, more) for more in after])
            self.filled[value] = self.function.constant(data, name, type)
        else:
            attrs = {"pads": (*(0 for _ in after), *after)}
            self.filled[value] = self._made("Pad", [value, None], type, attrs, name)
        return self.filled[value]

    def _move(self, node: Node) -> None:
        node.inputs = [self._in_bf16(node.operand(i)) for i in range(len(node.inputs))]
        node.output.type = replace(node.output.type, dtype=BF16)
        self.rounded[node.output] = node.output

    def _as_read(self, node: Node, value: Value | None) -> Value | None:
        """What a node reads that is no product."""
        if value is None or value not in self.rounded:
            return value
        narrow = self.rounded[value]
        stored = value.producer is None or value in self.function.outputs
        fuses = not node.bodies and operator_of(node).fusion <= Fusion.BROADCAST
        if narrow is not value and (stored or not fuses):
            return value
        return self._cast(narrow, replace(narrow.type, dtype=F32), "f32")

    def _in_bf16(self, value: Value) -> Value:
        if value not in self.rounded and isinstance(value, Constant):
            self.rounded[value] = rounded_constant(self.function, value)
        elif value not in self.rounded:
            self.rounded[value] = self._cast(value, replace(value.type, dtype=BF16), "bf16")
        return self.rounded[value]

    def _cast(self, value: Value, type: TensorType, suffix: str) -> Value:
        attrs = {"to": type.dtype} | ({"flush": True} if type.dtype == BF16 else {})
        return self._made("Cast", [value], type, attrs, f"{value.name}:{suffix}")

    def _made(
        self, op: str, inputs: Sequence[Value | None], type: TensorType, attrs: dict[str, Any], name: str
    ) -> Value:
        """The result of a new node."""
        assert inputs[0] is not None
        origin = inputs[0].producer.origin if inputs[0].producer is not None else ()
        node = self.function.make_node(op, inputs, [type], attrs, self.function.fresh(name), origin=origin)
        self.nodes.append(node)
        return node.output
