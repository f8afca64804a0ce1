"""Graph pass: choose how every tensor lies in memory and make the changes explicit with Pack and Unpack.

1. A node whose template wants storages (convolutions, pools, matrix products) gets them where that pays for
   the Packs it takes, see storage_choice.py: operands in another storage are packed.
2. A node that works in any storage (element-wise, broadcast, concatenation) takes the storage of its largest
   operand, or plain tensors where that takes fewer Packs; the others are packed to the same where they have
   the full shape. Where all are constants, it takes that of what its result meets in its first reader.
3. Everything else reads and writes plain tensors.
4. A convolution's padding becomes a halo of its input, which the input's producer writes, so that no guard is
   left in the convolution's loops. Of readers whose padding has other values than the first one's, it stays.
5. A Pack of a Constant is computed at once.
6. What a loop body captures is packed in front of the loop.
7. Without packing, only first operands get the storage that is wished; weights stay as the model has them.

    %c = Conv(%x, %w)            ->   %p = Pack(%x) {acdb+...}    %c = Conv(%p, %wp) {padded_by_halo=true}
    %r = Relu(%c)                     %r = Relu(%c)  (acdb)       ... Unpack at the function's outputs
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.control import changing_inputs, leading_operands
from tilewright.ops.operator import operator_of
from tilewright.passes.costs import Costs
from tilewright.passes.storage_choice import Decision, carries, choose, follows
from tilewright.storage import PLAIN, Storage, Wish


@dataclass(frozen=True)
class ChooseStorage:
    """costs: the target's wishes; packing: see case 7. Bodies are treated with the node that holds them, see
    case 6.

    Runs once: a second run would add Packs and Unpacks around those of the first.
    """

    name: ClassVar[str] = "storage"
    costs: Costs
    packing: bool = True

    def run(self, function: Function) -> bool:
        """Choose storages in the function and in all bodies; tells whether anything changed."""
        return _Choice(function, self.costs, self.packing).run()


@dataclass
class _Choice:
    """The choice for one function. outer, node: of a body, the choice and the node around it."""

    function: Function
    costs: Costs
    packing: bool
    outer: _Choice | None = None
    node: Node | None = None
    packs: dict[tuple[Value, Storage], Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def run(self) -> bool:
        asked = ((node, self._wish(node)) for node in self.function.nodes)
        wishes = {node: wish for node, wish in asked if wish is not None}
        cut = choose(self.function, wishes, self.costs)
        for node, decision in cut.decisions.items():
            node.notes["storage"] = _note(wishes[node], decision)
        given = {node for node, decision in cut.decisions.items() if decision.granted}
        halos = {node: wishes[node] for node in self.function.nodes if node in given and wishes[node].halo}
        changed = False
        for node in self.function.nodes:
            for body in node.bodies:
                changed |= _Choice(body, self.costs, self.packing, self, node).run()
            if node in given:
                self._grant(node, wishes[node])
            elif follows(node):
                self._follow(node, node in cut.turned)
            else:
                self._plain(node)
            self.nodes.append(node)
        self.function.outputs = [self._in_storage(value, PLAIN) for value in self.function.outputs]
        changed |= len(self.nodes) != len(self.function.nodes) or bool(self.packs)
        self.function.nodes = self.nodes
        self._add_halos(halos)
        return changed

    def _wish(self, node: Node) -> Wish | None:
        wish = self.costs.wish(node)
        if wish is None or self.packing:
            return wish
        return replace(wish, inputs=(wish.inputs[0], *(PLAIN for _ in wish.inputs[1:])))

    def _grant(self, node: Node, wish: Wish) -> None:
        for position, storage in enumerate(wish.inputs):
            value = node.inputs[position] if position < len(node.inputs) else None
            if value is not None and storage is not None:
                node.inputs[position] = self._in_storage(value, storage)
        _set_storage(node, wish.output)

    def _follow(self, node: Node, turned: bool) -> None:
        """turned: into the storage of the largest operand, otherwise plain."""
        full = _of_rank(node)
        if all(isinstance(value, Constant) for value in full):
            readers = (other for other in self.function.nodes if node.outputs[0] in other.inputs)
            full = _of_rank(next((other for other in readers if follows(other)), node))
        leading = max(full, key=lambda v: (v.type.size, v.type.storage != PLAIN), default=None)
        storage = replace(leading.type.storage, halo=(), fill=0) if turned and leading is not None else PLAIN
        for position, value in enumerate(node.inputs):
            if value is not None and carries(node, value):
                node.inputs[position] = self._in_storage(value, storage)
        _set_storage(node, storage)

    def _plain(self, node: Node) -> None:
        for position, value in enumerate(node.inputs):
            inner = position - leading_operands(node)
            packed = bool(node.bodies) and inner >= 0 and node.bodies[0].inputs[inner].type.storage != PLAIN
            if value is not None and not packed:
                node.inputs[position] = self._in_storage(value, PLAIN)

    def _in_storage(self, value: Value, storage: Storage) -> Value:
        if value.type.storage == storage:
            return value
        known = self.packs.get((value, storage))
        if known is not None:
            return known
        type = value.type.with_storage(storage)
        if isinstance(value, Constant):
            data = storage.pack(value.type.storage.unpack(value.data, value.shape))
            packed: Value = self.function.constant(data, f"{value.name}:packed", type)
        elif self._is_capture(value):
            packed = self._capture(value, storage)
        else:
            op = "Unpack" if storage == PLAIN else "Pack"
            attrs = {} if storage == PLAIN else {"storage": storage}
            origin = value.producer.origin if value.producer is not None else ()
            name = self.function.fresh(f"{value.name}:{op.lower()}")
            node = self.function.make_node(op, [value], [type], attrs, name, origin=origin)
            self.nodes.append(node)
            packed = node.output
        self.packs[value, storage] = packed
        return packed

    def _is_capture(self, value: Value) -> bool:
        """Whether a body reads the same value in every turn: its packing belongs in front of the loop."""
        if self.node is None:
            return False
        return any(value is v for v in self.function.inputs[changing_inputs(self.node) :])

    def _capture(self, value: Value, storage: Storage) -> Value:
        """A further operand of the node: the captured value, packed outside."""
        assert self.outer is not None
        assert self.node is not None
        position = next(i for i, v in enumerate(self.function.inputs) if v is value)
        packed = self.outer._in_storage(self.node.operand(position + leading_operands(self.node)), storage)
        self.node.inputs.append(packed)
        inputs = {body: body.add_input(f"{value.name}:packed", packed.type) for body in self.node.bodies}
        return inputs[self.function]

    def _add_halos(self, wanted: dict[Node, Wish]) -> None:
        """Case 4: the union of what all readers want becomes part of the value's storage.

        Not of what others agree on: inputs and outputs of functions, and operands and results of nodes with
        bodies or with a loop program, which know plain memory only.
        """
        shared = {*self.function.inputs, *self.function.outputs}
        for node in self.nodes:
            if node.bodies or operator_of(node).loops is not None:
                shared.update(v for v in (*node.inputs, *node.outputs) if v is not None)
        fills: dict[Value, int] = {}
        for node, wish in wanted.items():
            if wish.fill is not None:
                fills.setdefault(node.operand(0), wish.fill)
        union: dict[Value, tuple[tuple[int, int], ...]] = {}
        padded: list[Node] = []
        for node, wish in wanted.items():
            value, halo = node.operand(0), wish.halo
            other = wish.fill is not None and wish.fill != fills[value]
            if isinstance(value, Constant) or value in shared or other:
                continue
            old = union.get(value, ((0, 0),) * len(halo))
            union[value] = tuple((max(a, c), max(b, d)) for (a, b), (c, d) in zip(old, halo, strict=True))
            padded.append(node)
        for value, halo in union.items():
            storage = replace(value.type.storage, halo=halo, fill=fills.get(value, 0))
            value.type = value.type.with_storage(storage)
            producer = value.producer
            if producer is not None and producer.op == "Pack":
                producer.attrs["storage"] = storage
        for node in padded:
            node.attrs["padded_by_halo"] = True


def _of_rank(node: Node) -> list[Value]:
    """The operands that have the rank of the result."""
    rank = len(node.outputs[0].shape)
    return [value for value in node.inputs if value is not None and len(value.shape) == rank]


def _set_storage(node: Node, storage: Storage) -> None:
    for value in node.outputs:
        value.type = value.type.with_storage(storage)


def _note(wish: Wish, decision: Decision) -> dict[str, Any]:
    """A decision as JSON values, in cycles; gain: null for what is not weighed against anything."""
    return {
        "reads": [str(storage) for storage in wish.inputs if storage is not None],
        "writes": str(wish.output),
        "granted": decision.granted,
        "gain": None if decision.gain == inf else round(decision.gain),
        "packs_wished": round(decision.packs_wished),
        "packs_plain": round(decision.packs_plain),
    }
