"""What a pass is: a rewrite of one function, and the one place that descends into sub-functions.

A pass is a frozen dataclass whose fields are its options. Valid IR in, valid IR out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Protocol

from tilewright.graph.ir import Function

FUSED = "Fused"


class Pass(Protocol):
    """name: as in `tilewright opt -p NAME`. run: mutates the function, tells whether it changed anything."""

    name: ClassVar[str]

    def run(self, function: Function) -> bool:
        """Rewrite `function` and the bodies of its nodes in place."""
        ...


class FunctionPass(ABC):
    """A pass that treats all functions alike: the one it is given, then the bodies of its control flow.

    The outer function comes first, so that bodies which the pass itself creates are visited too. Bodies of
    Fused nodes are closed: they are kernels already.
    """

    name: ClassVar[str]

    def run(self, function: Function) -> bool:
        changed = self.transform(function)
        for body in control_flow_bodies(function):
            changed |= self.run(body)
        return changed

    @abstractmethod
    def transform(self, function: Function) -> bool:
        """Rewrite the nodes of one function, bodies left alone; tell whether anything changed."""


def control_flow_bodies(function: Function) -> Iterator[Function]:
    """The bodies of Scan and the like, directly in `function`."""
    for node in function.nodes:
        if node.op != FUSED:
            yield from node.bodies
