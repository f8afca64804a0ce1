"""Which nodes get the storage they wish for: the exact minimum of expected time over a whole function.

A node that wishes for a storage is either granted it or works on plain tensors, which costs its gain. A value
whose reader wants another storage than its producer writes costs a Pack, once, however many readers want it.
Nodes that work in any storage may go either way. With two labels this is a minimum cut, found exactly:

    source -- gain --> node         cut when the node is plain
    node -- pack --> z -- inf --> readers     cut, once, when the node is granted and some reader is plain
    readers -- inf --> z' -- pack --> node    the other way round
    node -- inf --> sink            for what must be plain
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.operator import Fusion, operator_of
from tilewright.passes.costs import Costs
from tilewright.storage import PLAIN, Wish

FOLLOWERS = (Fusion.ELEMENTWISE, Fusion.BROADCAST)
SOURCE, SINK = 0, 1


def follows(node: Node) -> bool:
    """Whether a node works equally well in any storage."""
    return not node.bodies and (operator_of(node).fusion in FOLLOWERS or node.op == "Concat")


def granted(function: Function, wishes: Mapping[Node, Wish], costs: Costs) -> set[Node]:
    """The nodes whose wishes for their activations are granted; wishes for plain activations always are."""
    always = {node for node, wish in wishes.items() if wish.inputs[0] in (None, PLAIN)}
    asking = {node: wish for node, wish in wishes.items() if node not in always}
    if not asking:
        return always
    graph = _Cut()
    reads = {node: graph.vertex() for node in function.nodes}  # the storage that a node reads
    writes: dict[Value, int] = {}
    for node in function.nodes:
        wish = asking.get(node)
        if wish is None and not follows(node):
            graph.edge(reads[node], SINK, inf)
        if wish is not None:
            graph.edge(SOURCE, reads[node], wish.gain)
        turned = wish is not None and wish.output != PLAIN
        writes |= {
            v: reads[node] if turned or (wish is None and follows(node)) else SINK for v in node.outputs
        }
    for value, readers in _readers(function, asking).items():
        producer = writes.get(value, SINK)
        others = [SINK if node is None else reads[node] for node in readers]
        _price(graph, producer, others, costs.pack_cost(value.type))
    kept = graph.source_side()
    return always | {node for node in asking if reads[node] in kept}


def _readers(function: Function, asking: Mapping[Node, Wish]) -> dict[Value, list[Node | None]]:
    """Who reads each value in a storage of choice: nodes, and None for the function's outputs."""
    readers: dict[Value, list[Node | None]] = {}
    for node in function.nodes:
        shape = node.outputs[0].shape if node.outputs else ()
        for position, value in enumerate(node.inputs):
            if value is None or isinstance(value, Constant):
                continue
            small = follows(node) and node.op != "Concat" and value.shape != shape
            if not small and (position == 0 or node not in asking):
                readers.setdefault(value, []).append(node)
    for value in function.outputs:
        readers.setdefault(value, []).append(None)
    return readers


def _price(graph: _Cut, producer: int, readers: list[int], cost: float) -> None:
    to_plain, to_wished = graph.vertex(), graph.vertex()
    graph.edge(producer, to_plain, cost)
    graph.edge(to_wished, producer, cost)
    for reader in readers:
        graph.edge(to_plain, reader, inf)
        graph.edge(reader, to_wished, inf)


class _Cut:
    """A directed graph with capacities, and its minimum cut by Dinic's algorithm."""

    def __init__(self) -> None:
        self.heads: list[list[int]] = [[], []]  # edges that leave each vertex
        self.to: list[int] = []
        self.room: list[float] = []

    def vertex(self) -> int:
        self.heads.append([])
        return len(self.heads) - 1

    def edge(self, a: int, b: int, capacity: float) -> None:
        for start, end, room in ((a, b, capacity), (b, a, 0.0)):
            self.heads[start].append(len(self.to))
            self.to.append(end)
            self.room.append(room)

    def source_side(self) -> set[int]:
        """The vertices on the source's side of the cut that lies nearest to the source."""
        while True:
            levels = self._levels()
            if SINK not in levels:
                return set(levels)
            pending = [0] * len(self.heads)
            while self._augment(levels, pending):
                pass

    def _levels(self) -> dict[int, int]:
        levels, queue = {SOURCE: 0}, deque([SOURCE])
        while queue:
            vertex = queue.popleft()
            for edge in self.heads[vertex]:
                if self.room[edge] > 0 and self.to[edge] not in levels:
                    levels[self.to[edge]] = levels[vertex] + 1
                    queue.append(self.to[edge])
        return levels

    def _augment(self, levels: Mapping[int, int], pending: list[int]) -> bool:
        """Push one path's worth of flow along the levels; False when there is no path left."""
        path: list[int] = []
        vertex = SOURCE
        while vertex != SINK:
            edges = self.heads[vertex]
            while pending[vertex] < len(edges):
                edge = edges[pending[vertex]]
                if self.room[edge] > 0 and levels.get(self.to[edge], -1) == levels[vertex] + 1:
                    break
                pending[vertex] += 1
            else:
                if not path:
                    return False
                vertex = self.to[path.pop() ^ 1]
                pending[vertex] += 1
                continue
            path.append(edge)
            vertex = self.to[edge]
        pushed = min(self.room[edge] for edge in path)
        for edge in path:
            self.room[edge] -= pushed
            self.room[edge ^ 1] += pushed
        return True
