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
from collections.abc import Mapping, Set
from dataclasses import dataclass
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


def carries(node: Node, value: Value) -> bool:
    """Whether a following node reads an operand in its own storage: not those that it broadcasts."""
    return node.op == "Concat" or value.shape == node.outputs[0].shape


@dataclass(frozen=True)
class Decision:
    """granted: whether a node gets the storage that it wishes for; gain: cycles that it saves by it.

    packs_wished, packs_plain: cycles of the Packs next to the node in the wished storage and on plain
    tensors, all other nodes being as they are. So granted: gain + packs_plain >= packs_wished; refused: <.
    """

    granted: bool
    gain: float
    packs_wished: float = 0.0
    packs_plain: float = 0.0


@dataclass(frozen=True)
class Cut:
    """decisions: one for every wish; turned: the following nodes that work in the storage of their operands
    rather than on plain tensors.
    """

    decisions: Mapping[Node, Decision]
    turned: Set[Node] = frozenset()


@dataclass(frozen=True)
class _Border:
    """A value between vertices; cost of a Pack, which it takes when a reader differs from the producer."""

    producer: int
    readers: tuple[int, ...]
    cost: float

    def price(self, wished: Set[int]) -> float:
        """What the value costs. wished: the vertices in wished storages."""
        own = self.producer in wished
        return self.cost if any((reader in wished) != own for reader in self.readers) else 0.0


def choose(function: Function, wishes: Mapping[Node, Wish], costs: Costs) -> Cut:
    """What becomes of every wish for activations; those for plain activations are always granted."""
    asking = {node: wish for node, wish in wishes.items() if wish.inputs[0] not in (None, PLAIN)}
    always = {node: Decision(True, wish.gain) for node, wish in wishes.items() if node not in asking}
    if not asking:
        return Cut(always)
    graph = _Cut()
    vertices = {node: graph.vertex() for node in function.nodes}
    for node, vertex in vertices.items():
        if node in asking:
            graph.edge(SOURCE, vertex, asking[node].gain)
        elif not follows(node):
            graph.edge(vertex, SINK, inf)
    borders = _borders(function, asking, vertices, costs)
    for border in borders:
        _add_border(graph, border)
    wished = graph.source_side()
    around: dict[int, list[_Border]] = {}
    for border in borders:
        for vertex in {border.producer, *border.readers}:
            around.setdefault(vertex, []).append(border)
    decisions = {
        node: _decision(wish.gain, vertices[node], wished, around.get(vertices[node], []))
        for node, wish in asking.items()
    }
    turned = {node for node, vertex in vertices.items() if vertex in wished and node not in asking}
    return Cut(always | decisions, turned)


def _decision(gain: float, vertex: int, wished: Set[int], borders: list[_Border]) -> Decision:
    packs_wished = sum(border.price(wished | {vertex}) for border in borders)
    packs_plain = sum(border.price(wished - {vertex}) for border in borders)
    return Decision(vertex in wished, gain, packs_wished, packs_plain)


def _borders(
    function: Function, asking: Mapping[Node, Wish], vertices: Mapping[Node, int], costs: Costs
) -> list[_Border]:
    """Every value that somebody reads in a storage of choice. The outside and all that is plain is SINK."""
    writers: dict[Value, int] = {}
    for node, vertex in vertices.items():
        writes_wished = asking[node].output != PLAIN if node in asking else follows(node)
        writers |= dict.fromkeys(node.outputs, vertex if writes_wished else SINK)
    readers: dict[Value, list[int]] = {}
    for node, vertex in vertices.items():
        for position, value in enumerate(node.inputs):
            if value is None or isinstance(value, Constant) or (follows(node) and not carries(node, value)):
                continue
            if position == 0 or node not in asking:
                readers.setdefault(value, []).append(vertex)
    for value in function.outputs:
        readers.setdefault(value, []).append(SINK)
    return [
        _Border(writers.get(value, SINK), tuple(found), costs.pack_cost(value.type))
        for value, found in readers.items()
    ]


def _add_border(graph: _Cut, border: _Border) -> None:
    to_plain, to_wished = graph.vertex(), graph.vertex()
    graph.edge(border.producer, to_plain, border.cost)
    graph.edge(to_wished, border.producer, border.cost)
    for reader in border.readers:
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
        """The vertices on the source's side of the minimum cut that lies nearest to the sink."""
        while True:
            levels = self._levels()
            if SINK not in levels:
                return set(range(len(self.heads))) - self._reaching_sink()
            pending = [0] * len(self.heads)
            while self._augment(levels, pending):
                pass

    def _reaching_sink(self) -> set[int]:
        found, queue = {SINK}, deque([SINK])
        while queue:
            for edge in self.heads[queue.popleft()]:
                if self.room[edge ^ 1] > 0 and self.to[edge] not in found:
                    found.add(self.to[edge])
                    queue.append(self.to[edge])
        return found

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
