"""How a pass asks a target about algorithms and storages: it knows the graph, the target its templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tilewright.graph.ir import Node
from tilewright.storage import Wish
from tilewright.types import TensorType

PRODUCTS = ("Conv", "Gemm", "MatMul")  # operators whose algorithm a target is asked for


class Costs(Protocol):
    """Answers of a target; every `lower.target.Target` is one."""

    def wish(self, node: Node) -> Wish | None:
        """What a node's template wants; None when it works equally in any storage and follows its first
        operand.
        """
        ...

    def pack_cost(self, type: TensorType) -> float:
        """Cycles of bringing a tensor of this type into another storage."""
        ...

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """Expected cycles of a product by each algorithm, such as `direct` or a name of
        `ops.winograd.ALGORITHMS`; empty where there is only one.
        """
        ...


def choose_algorithm(node: Node, costs: Costs) -> str | None:
    """The algorithm of fewest cycles, the first of equal ones; None where there is no choice.

    What was compared becomes the node's note `algorithm`.
    """
    cycles = costs.algorithms(node)
    if not cycles:
        return None
    chosen = min(cycles, key=cycles.__getitem__)
    node.notes["algorithm"] = {"chosen": chosen, "cycles": {name: round(n) for name, n in cycles.items()}}
    return chosen
