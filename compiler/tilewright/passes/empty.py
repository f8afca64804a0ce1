"""Tensors without elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.control import CONTROL_FLOW
from tilewright.ops.operator import operator_of
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import plain_array
from tilewright.passes.editor import Editor


@dataclass(frozen=True)
class Empty(FunctionPass):
    """Make tensors without elements constants: they are known before any input is, and need no kernel.

    1. an empty result                     y: f32[0,4] = Relu(x)       ->  y = constant f32[0,4]
    2. a result of empty operands          ReduceSum(x: f32[0,4])      ->  the constant 0
    3. an empty part of a Concat           Concat(x: f32[0,4], y, z)   ->  Concat(y, z)

    A result of case 2 is made when it has at most `max_bytes`. Control flow stays: a body may have to run for
    its other results. Idempotent; O(n) besides the arithmetic.
    """

    name: ClassVar[str] = "empty"
    max_bytes: int = 1 << 20

    def transform(self, function: Function) -> bool:
        editor = Editor(function)
        for node in function.nodes:
            if node.op in CONTROL_FLOW or not editor.alive(node):
                continue
            if node.op == "Concat":
                _drop_parts(editor, node)
            if self._known(node):
                _evaluate(editor, node)
            else:
                _make_constant(editor, node)
        return editor.finish()

    def _known(self, node: Node) -> bool:
        """Whether the results follow from empty operands, and are worth to be kept."""
        operands = [value for value in node.inputs if value is not None]
        bounded = any(value.type.is_bounded for value in node.outputs)
        if bounded or node.bodies or not any(map(_is_empty, operands)) or all(map(_is_empty, node.outputs)):
            return False
        known = all(_is_empty(value) or isinstance(value, Constant) for value in operands)
        return known and sum(value.type.bytes for value in node.outputs) <= self.max_bytes


def _is_empty(value: Value) -> bool:
    return any(extent == 0 for extent in value.shape) and not value.type.is_bounded


def _drop_parts(editor: Editor, node: Node) -> None:
    parts = [value for value in node.inputs if value is not None and not _is_empty(value)]
    if not parts or len(parts) == len(node.inputs):
        return
    if len(parts) > 1:
        whole = editor.insert(node, "Concat", *parts, **node.attrs)
    else:
        whole = editor.insert(node, "Identity", parts[0])
    if whole.type == node.output.type:
        editor.replace(node.output, whole)


def _evaluate(editor: Editor, node: Node) -> None:
    arrays = [None if value is None else _array(value) for value in node.inputs]
    with np.errstate(all="ignore"):
        results = operator_of(node).evaluate(arrays, node.attrs)
    for value, result in zip(list(node.outputs), results, strict=True):
        editor.replace(value, editor.constant(result, value.type, value.name))


def _array(value: Value) -> np.ndarray:
    if isinstance(value, Constant):
        return plain_array(value)
    return np.empty(value.shape, value.dtype.numpy)


def _make_constant(editor: Editor, node: Node) -> None:
    for value in list(node.outputs):
        if _is_empty(value) and (editor.users(value) or editor.is_output(value)):
            nothing = np.empty(value.shape, value.dtype.numpy)
            editor.replace(value, editor.constant(nothing, value.type, value.name))
