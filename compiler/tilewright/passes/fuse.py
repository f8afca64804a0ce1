"""Operator fusion by TVM's four classes (paper section 3), with post-dominators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.ir import Constant, Function, Node
from tilewright.ops.operator import Fusion, operator_of
from tilewright.passes.base import FunctionPass
from tilewright.passes.dominators import PostDominators, post_dominators
from tilewright.passes.fused import replace_groups

_DATA_MOVEMENT = frozenset(
    {"Cast", "Concat", "Expand", "Gather", "Pack", "Pad", "Reshape", "Slice", "Tile", "Transpose", "Unpack"}
)
_PADDING = frozenset({"Concat", "Pad"})  # larger than an operand, yet read each of its elements once


@dataclass(frozen=True)
class Fuse(FunctionPass):
    """Gather nodes into Fused nodes, each of which becomes one kernel.

    1. COMPLEX or REDUCTION with the element-wise nodes that follow, whose results have its result's shape and
       order in memory; their other operands may come from anywhere, through a Cast from fewer bytes too, or
       be a constant times a number:
           Relu(Add(Conv(x), Cast(residual)))            ->  Fused {Cast, Conv, Add, Relu}
    2. all paths between a node and its post-dominator, or none:
           c = Conv(x); s = Sigmoid(c); y = Mul(c, s)    ->  Fused {Conv, Sigmoid, Mul}
    3. element-wise nodes with the reduction they feed, when nothing else reads them; not with pooling, whose
       windows overlap and would compute them again:
           ReduceSum(Mul(x, x))                          ->  Fused {Mul, ReduceSum}
    4. chains and diamonds of ELEMENTWISE, BROADCAST, INJECTIVE:
           Slice(Neg(Transpose(x)))                      ->  Fused {Transpose, Neg, Slice}

    A group has one result: a value that is read outside or is an output of the function is never swallowed.
    There is at most one COMPLEX in a group, and none of its operands. OPAQUE nodes, control flow and nodes
    of several results stay alone, so does a Reshape of plain storage at the border of a group: it is a view
    and costs nothing. Arithmetic on few elements is not repeated for a result of many: Exp(x[8]) ->
    Expand[8,1000] stays two kernels. Constants of one element move into the body and become literals; other
    constants are inputs.

    max_nodes: nodes in a group. Run after dead code elimination. Idempotent; O(n * max_nodes).
    """

    name: ClassVar[str] = "fuse"
    max_nodes: int = 64

    def transform(self, function: Function) -> bool:
        grouping = _Grouping(function, self.max_nodes)
        grouping.absorb_consumers(Fusion.COMPLEX)
        grouping.absorb_consumers(Fusion.REDUCTION)
        grouping.absorb_operands()
        grouping.absorb_producers()
        grouping.join_injective()
        groups = [group for group in map(_without_views, grouping.groups()) if len(group) > 1]
        replace_groups(function, groups)
        return bool(groups)


def fusion_class(node: Node) -> Fusion:
    """The class of a node; several results or a body make it OPAQUE."""
    if node.bodies or len(node.outputs) != 1:
        return Fusion.OPAQUE
    return operator_of(node).fusion


def _reads_little(node: Node) -> bool:
    """Whether a node reads no more than it writes: fewer bytes in a Cast, or constants and single numbers."""
    if node.op == "Cast":
        return node.operand(0).dtype.bytes < node.output.dtype.bytes
    little = (v is None or isinstance(v, Constant) or v.type.size == 1 for v in node.inputs)
    return fusion_class(node) <= Fusion.BROADCAST and all(little)


def is_view(node: Node) -> bool:
    """Whether a node only renames the indices of the same memory."""
    if node.op != "Reshape":
        return False
    storages = (node.operand(0).type.storage, node.output.type.storage)
    return not any(storage.tag or storage.has_halo for storage in storages)


class _Grouping:
    """A partition of the nodes under construction; the result of one node only, its tail, leaves a group."""

    def __init__(self, function: Function, max_nodes: int) -> None:
        self.nodes = function.nodes
        self.max_nodes = max_nodes
        self.dominators: PostDominators = post_dominators(function)
        self.kinds = {node: fusion_class(node) for node in function.nodes}
        self.group_of: dict[Node, list[Node]] = {node: [node] for node in function.nodes}
        self.anchored: set[Node] = {node for node, kind in self.kinds.items() if kind > Fusion.INJECTIVE}

    def groups(self) -> list[list[Node]]:
        """Every group, its nodes in order."""
        distinct = {id(group): group for group in self.group_of.values()}
        position = {node: index for index, node in enumerate(self.nodes)}
        return [sorted(group, key=position.__getitem__) for group in distinct.values()]

    def absorb_consumers(self, kind: Fusion) -> None:
        """Let each node of a kind take the element-wise nodes that follow it.

        Later nodes first: of two convolutions that an addition joins, the later one writes the sum, while the
        other's result has been in memory for long.
        """
        for anchor in reversed(self.nodes):
            if self.kinds[anchor] != kind:
                continue
            tail = anchor
            while (path := self._followers(anchor, tail)) and self._merge(anchor, path):
                self.anchored.update(path)
                tail = self.dominators.parents[tail]

    def absorb_operands(self) -> None:
        """Let each group take the nodes that read little and that only its element-wise nodes read."""
        for node in self.nodes:
            readers = self.dominators.consumers[node]
            free = node not in self.anchored and node not in self.dominators.escapes
            if not readers or not free or not _reads_little(node):
                continue
            alone = all(self.group_of[reader] is self.group_of[readers[0]] for reader in readers)
            follow = alone and all(self._follows(reader, node) for reader in readers)
            if follow and self._merge(readers[0], [node]):
                self.anchored.add(node)

    def absorb_producers(self) -> None:
        """Let each reduction take the element-wise nodes that only it reads."""
        for anchor in self.nodes:
            if self.kinds[anchor] != Fusion.REDUCTION or "kernel_shape" in anchor.attrs:
                continue
            pending = [anchor]
            while pending:
                for producer in self._absorbable(pending.pop()):
                    if self._merge(anchor, [producer]):
                        self.anchored.add(producer)
                        pending.append(producer)

    def join_injective(self) -> None:
        """Join every free node with all that stands between it and its post-dominator, if that is free."""
        kinds = {Fusion.ELEMENTWISE, Fusion.BROADCAST, Fusion.INJECTIVE}
        for node in reversed(self.nodes):
            if node in self.anchored:
                continue
            path = self._path(node, kinds)
            if path is not None and not self._repeats(node, path):
                self._merge(node, path)

    def _followers(self, anchor: Node, tail: Node) -> list[Node]:
        path = self._path(tail, {Fusion.ELEMENTWISE, Fusion.BROADCAST})
        return path if path and all(self._same_layout(anchor, node) for node in path) else []

    def _follows(self, reader: Node, operand: Node) -> bool:
        """Whether a reader of an operand of its shape stands behind the anchor of a group."""
        behind = reader in self.anchored and self.kinds[reader] <= Fusion.BROADCAST
        return behind and reader.output.shape == operand.output.shape

    def _absorbable(self, node: Node) -> list[Node]:
        producers = []
        for value in node.inputs:
            producer = None if value is None else value.producer
            if producer is None or producer in self.anchored or producer in self.dominators.escapes:
                continue
            reads = sum(operand is value for operand in node.inputs)
            alone = reads == 1 and len(self.dominators.consumers[producer]) == 1
            repeated = self.kinds[node] <= Fusion.BROADCAST and _repeats_operand(node, {producer})
            if alone and self.kinds[producer] <= Fusion.BROADCAST and not repeated:
                producers.append(producer)
        return producers

    def _path(self, node: Node, kinds: set[Fusion]) -> list[Node] | None:
        return self.dominators.between(
            node, self.max_nodes, lambda other: other not in self.anchored and self.kinds[other] in kinds
        )

    def _merge(self, member: Node, others: list[Node]) -> bool:
        """Union of the groups; False, and nothing done, when it would be too large."""
        parts = {id(group): group for group in (self.group_of[node] for node in (member, *others))}
        if sum(map(len, parts.values())) > self.max_nodes:
            return False
        union = [node for part in parts.values() for node in part]
        for node in union:
            self.group_of[node] = union
        return True

    @staticmethod
    def _same_layout(anchor: Node, node: Node) -> bool:
        """Halos may differ: the group's kernel writes the one of its tail, whose readers wanted it."""
        wanted, found = anchor.output.type, node.output.type
        return wanted.shape == found.shape and wanted.storage.tag == found.storage.tag

    def _repeats(self, node: Node, path: list[Node]) -> bool:
        """Whether joining would compute arithmetic more often than once an element."""
        joined = self.group_of[self.dominators.parents[node]]
        if all(other.op in _DATA_MOVEMENT or self.group_of[other] is joined for other in (node, *path)):
            return False
        members = {node, *(other for part in path for other in self.group_of[part])}
        return any(_repeats_operand(other, members) for other in members)


def _repeats_operand(node: Node, members: set[Node]) -> bool:
    """Whether a node reads an operand that a member makes more than once an element."""
    if node.op in _PADDING:
        return False
    size = node.output.type.size
    return any(v is not None and v.producer in members and v.type.size < size for v in node.inputs)


def _without_views(group: list[Node]) -> list[Node]:
    """A group without the views at its border."""
    members = list(group)
    while members:
        inside = set(members)
        border = next(
            (
                node
                for node in members
                if is_view(node) and (node is members[-1] or node.operand(0).producer not in inside)
            ),
            None,
        )
        if border is None:
            break
        members.remove(border)
    return members
