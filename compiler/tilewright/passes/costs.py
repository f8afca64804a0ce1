"""How a pass asks a target about storages: the pass knows the graph, the target knows its templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tilewright.graph.ir import Node
from tilewright.storage import Storage


@dataclass(frozen=True)
class Wish:
    """Storages that a node's best template reads and writes. Halos are left to the pass.

    inputs: one an operand, None where the operand's own storage is read as it is.
    halo: zeros that input 0 needs around it for the padding to need no guards, (before, after) a logical axis, or ().
    """

    inputs: tuple[Storage | None, ...]
    output: Storage
    halo: tuple[tuple[int, int], ...] = ()


class Costs(Protocol):
    """Answers of a target."""

    def wish(self, node: Node) -> Wish | None:
        """What a node's template wants; None when it works equally in any storage and follows its first operand."""
        ...
