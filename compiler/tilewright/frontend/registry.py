"""Which ONNX operators the front end reads, opset by opset.

A key is (operator, since-version): the version of ONNX's operator set in which the operator last changed.
A new version of ONNX that changes an operator is therefore refused until somebody has read the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.graph.ir import Value

if TYPE_CHECKING:
    from tilewright.frontend.site import Site

Attributes = Mapping[str, Any]
Reader = Callable[["Site"], Sequence[Value | None]]
Refusals = Callable[[Attributes, Sequence[bool]], Iterable[str]]

# Of older opsets only operators are read that have not changed between then and this one.
OLDEST_OPSET = 7


@dataclass(frozen=True)
class Importer:
    """read: the node's results from its operands; refuse: reasons why these attributes are not supported.

    `refuse` sees the attributes and, for every output, whether the model names it; it is called for all nodes
    before the first one is read, so that one error can list everything.
    """

    read: Reader
    refuse: Refusals


# Operators that read sequences; all others take tensors only.
SEQUENCE_OPERATORS = frozenset(
    {"ConcatFromSequence", "SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength"}
)

TABLE: dict[tuple[str, int], Importer] = {}


def nothing_refused(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """For operators of which every attribute is supported."""
    return ()


def importer(op: str, *since: int, refuse: Refusals = nothing_refused) -> Callable[[Reader], Reader]:
    """Register a reader for the given since-versions of an ONNX operator."""

    def register(read: Reader) -> Reader:
        for version in since:
            if (op, version) in TABLE:
                raise ValueError(f"{op}-{version} is registered twice")
            TABLE[op, version] = Importer(read, refuse)
        return read

    return register
