"""Post-dominators of a dataflow graph: where all paths from a value meet again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.graph.ir import Function, Node


@dataclass(frozen=True)
class PostDominators:
    """What `post_dominators` finds.

    consumers: the nodes that read a node's results, each once.
    escapes: nodes with a result that the function returns.
    parents: the immediate post-dominator; a node without one reaches the outputs in several ways, or dies.
    """

    consumers: Mapping[Node, Sequence[Node]]
    escapes: frozenset[Node]
    parents: Mapping[Node, Node]

    def between(self, start: Node, limit: int, allowed: Callable[[Node], bool]) -> list[Node] | None:
        """All nodes on paths from `start` to its immediate post-dominator, that one included, `start` not.

        None when there is no post-dominator, a node on the way is not allowed, or there are more than
        `limit`.
        """
        end = self.parents.get(start)
        if end is None or not allowed(end):
            return None
        found: dict[Node, None] = {end: None}
        pending = list(self.consumers[start])
        while pending:
            node = pending.pop()
            if node in found:
                continue
            if not allowed(node) or len(found) >= limit:
                return None
            found[node] = None
            pending.extend(self.consumers[node])
        return list(found)


@dataclass
class _Tree:
    parents: dict[Node, Node] = field(default_factory=dict)
    depths: dict[Node, int] = field(default_factory=dict)

    def meet(self, first: Node | None, second: Node | None) -> Node | None:
        """The lowest common ancestor; None stands for the exit."""
        while first is not second:
            if first is None or second is None:
                return None
            if self.depths[first] >= self.depths[second]:
                first = self.parents.get(first)
            else:
                second = self.parents.get(second)
        return first


def post_dominators(function: Function) -> PostDominators:
    """One backward sweep over the nodes; the tree is climbed from the consumers of each."""
    consumers: dict[Node, dict[Node, None]] = {node: {} for node in function.nodes}
    for node in function.nodes:
        for value in node.inputs:
            if value is not None and value.producer is not None:
                consumers[value.producer][node] = None
    escapes = frozenset(value.producer for value in function.outputs if value.producer is not None)
    tree = _Tree()
    for node in reversed(function.nodes):
        readers = list(consumers[node])
        parent = None if node in escapes or not readers else readers[0]
        for reader in readers[1:]:
            parent = tree.meet(parent, reader)
        tree.depths[node] = 0
        if parent is not None:
            tree.parents[node] = parent
            tree.depths[node] = tree.depths[parent] + 1
    return PostDominators({node: list(found) for node, found in consumers.items()}, escapes, tree.parents)
