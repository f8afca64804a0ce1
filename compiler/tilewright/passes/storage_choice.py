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


@dataclass(frozen=True)
class Decision:
    """granted: whether a node gets the storage that it wishes for; gain: cycles that it saves by it.

    packs_wished, packs_plain: cycles of the Packs next to the node in the wished storage and on plain
    tensors, all other nodes being as they are. So granted: gain + packs_plain >= packs_wished; refused: <=.
    """

    granted: bool
    gain: float
    packs_wished: float = 0.0
    packs_plain: float = 0.0


@dataclass(frozen=True)
class _Border:
    """A value between vertices; cost of a Pack, which it takes when a reader differs from the producer."""

    producer: int
    readers: tuple[int, ...]
    cost: float

    def price(self, turned: Set[int]) -> float:
        """What the value costs. turned: the vertices in wished storages."""
        own = self.producer in turned
        return self.cost if any((reader in turned) != own for reader in self.readers) else 0.0


def decide(function: Function, wishes: Mapping[Node, Wish], costs: Costs) -> dict[Node, Decision]:
    """What becomes of every wish for activations; those for plain activations are always granted."""
    asking = {node: wish for node, wish in wishes.items() if wish.inputs[0] not in (None, PLAIN)}
    always = {node: Decision(True, wish.gain) for node, wish in wishes.items() if node not in asking}
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
    borders: list[_Border] = []
    for value, readers in _readers(function, asking).items():
        vertices = tuple(SINK if node is None else reads[node] for node in readers)
        borders.append(_Border(writes.get(value, SINK), vertices, costs.pack_cost(value.type)))
        _add_border(graph, borders[-1])
    kept = graph.source_side()
    around: dict[int, list[_Border]] = {}
    for border in borders:
        for vertex in {border.producer, *border.readers}:
            around.setdefault(vertex, []).append(border)
    return always | {
        node: _decision(wish.gain, reads[node], kept, around.get(reads[node], []))
        for node, wish in asking.items()
    }


def _decision(gain: float, vertex: int, kept: Set[int], borders: list[_Border]) -> Decision:
    wished, plain = kept | {vertex}, kept - {vertex}
    return Decision(
        vertex in kept, gain, sum(b.price(wished) for b in borders), sum(b.price(plain) for b in borders)
    )


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
