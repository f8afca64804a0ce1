"""What passes noted about the nodes of a kernel, as rows of a program's reasons."""

from __future__ import annotations

from typing import Any

from tilewright.graph.ir import Node


def reasons_for(node: Node, kernel: str) -> list[dict[str, Any]]:
    """A row for each node of a group that bears notes: nodes of the model, operator, kernel, and the notes by
    subject: `algorithm` (passes/costs.py), `storage` (passes/storage.py).
    """
    members = node.bodies[0].nodes if node.op == "Fused" else [node]
    return [
        {"nodes": list(member.origin or (member.name,)), "op": member.op, "kernel": kernel, **member.notes}
        for member in members
        if member.notes
    ]
