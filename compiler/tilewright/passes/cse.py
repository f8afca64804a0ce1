"""Common subexpression elimination."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tilewright.graph.ir import Constant, Function, Node
from tilewright.passes.base import FunctionPass
from tilewright.passes.editor import Editor

_SAMPLE = 64  # elements that are compared before all bytes are


@dataclass(frozen=True)
class Cse(FunctionPass):
    """Compute equal things once.

    1. equal nodes       a = Relu(x); b = Relu(x); y = Add(a, b)     ->  a = Relu(x); y = Add(a, a)
    2. equal constants   Add(x, c1), Add(z, c2), c1 = c2 bit by bit  ->  Add(x, c1), Add(z, c1)

    Equal: same operator, attributes, operands and result types. Nodes with bodies are left alone, their
    bodies are treated. Idempotent; O(n) besides comparing constants of equal type.
    """

    name: ClassVar[str] = "cse"

    def transform(self, function: Function) -> bool:
        editor = Editor(function)
        _merge_constants(editor)
        seen: dict[Hashable, Node] = {}
        for node in function.nodes:
            if node.bodies:
                continue
            first = seen.setdefault(_key(node), node)
            if first is node:
                continue
            first.origin = tuple(dict.fromkeys((*first.origin, *node.origin)))
            for old, new in zip(list(node.outputs), first.outputs, strict=True):
                editor.replace(old, new)
            editor.erase_dead(node)
        return editor.finish()


def _merge_constants(editor: Editor) -> None:
    candidates: dict[Hashable, list[Constant]] = {}
    for constant in editor.function.constants():
        candidates.setdefault(_digest(constant), []).append(constant)
    for group in candidates.values():
        distinct: list[Constant] = []
        for constant in group:
            first = next((other for other in distinct if _same_bytes(other.data, constant.data)), None)
            if first is None:
                distinct.append(constant)
            else:
                editor.replace(constant, first)


def _digest(constant: Constant) -> Hashable:
    flat = constant.data.reshape(-1)
    return constant.type, flat[:: max(1, flat.size // _SAMPLE)].tobytes()


def _same_bytes(first: np.ndarray, second: np.ndarray) -> bool:
    if first is second:
        return True
    return first.shape == second.shape and bool(np.array_equal(_bytes(first), _bytes(second)))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _key(node: Node) -> Hashable:
    attributes = tuple((name, _frozen(node.attrs[name])) for name in sorted(node.attrs))
    types = tuple(value.type for value in node.outputs)
    return node.op, attributes, tuple(node.inputs), types


def _frozen(attribute: Any) -> Hashable:
    """A key that tells 1, 1.0 and True apart, and 0.0 from -0.0."""
    if isinstance(attribute, np.ndarray):
        return str(attribute.dtype), attribute.shape, attribute.tobytes()
    if isinstance(attribute, float):
        return struct.pack("d", attribute)
    if isinstance(attribute, list | tuple):
        return tuple(_frozen(item) for item in attribute)
    return type(attribute).__name__, attribute
