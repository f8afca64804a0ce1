"""A group in words: nodes with equal descriptions give equal kernels, in this process and in any other."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from tilewright.graph.ir import Attribute, Node, Value
from tilewright.lower.group import literal


def describe(node: Node) -> str:
    """Operators, attributes, types and literals of a primitive or Fused node; values by position."""
    members = node.bodies[0].nodes if node.op == "Fused" else [node]
    numbers: dict[Value, int] = {}
    lines = []
    for member in members:
        attributes = ", ".join(f"{k}={_attribute(v)}" for k, v in sorted(member.attrs.items()))
        operands = [_operand(value, numbers) for value in member.inputs]
        results = [_numbered(value, numbers) for value in member.outputs]
        lines.append(f"{' '.join(results)} = {member.op}({' '.join(operands)}) {attributes}")
    if node.op != "Fused":
        return lines[0]
    (body,) = node.bodies
    pairs = zip(node.inputs, body.inputs, strict=True)
    given = [f"{'absent' if outer is None else outer.type}:{numbers.get(inner)}" for outer, inner in pairs]
    taken = [
        f"{outer.type}:{numbers[inner]}" for outer, inner in zip(node.outputs, body.outputs, strict=True)
    ]
    return "\n".join([*lines, f"in {' '.join(given)}", f"out {' '.join(taken)}"])


def _operand(value: Value | None, numbers: dict[Value, int]) -> str:
    number = None if value is None else literal(value)
    if value is None or number is not None:
        return repr(number)
    return _numbered(value, numbers)


def _numbered(value: Value, numbers: dict[Value, int]) -> str:
    return f"%{numbers.setdefault(value, len(numbers))}:{value.type}"


def _attribute(value: Attribute) -> str:
    """repr shortens large arrays, so these are told by a digest."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)} {sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    return repr(value)
