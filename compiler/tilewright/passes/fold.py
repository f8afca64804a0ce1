"""Constant folding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.graph.ir import Constant, Function, Node
from tilewright.ops.operator import operator_of
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import plain_array
from tilewright.passes.editor import Editor


@dataclass(frozen=True)
class Fold(FunctionPass):
    """Replace a node whose operands are all constants by its value.

    1. every operand constant            Add(2, 3)             ->  5
    2. weights brought to a storage      Pack(w) {Abcd16a}     ->  w in that storage
    3. not when that would blow up       Tile(c) {1000, 1000}  stays, see the options

    max_bytes: results up to this size are always folded. max_growth: larger ones only when they are at most
    so many times the size of all operands together; Pack always is, its operand would be packed at every run.
    Control flow is not run at compile time, its bodies are folded. Idempotent; O(n) besides the arithmetic.
    """

    name: ClassVar[str] = "fold"
    max_bytes: int = 1 << 20
    max_growth: int = 4

    def transform(self, function: Function) -> bool:
        editor = Editor(function)
        for node in function.nodes:
            if self._foldable(node):
                _fold(editor, node)
        return editor.finish()

    def _foldable(self, node: Node) -> bool:
        operands = [value for value in node.inputs if value is not None]
        bounded = any(value.type.is_bounded for value in node.outputs)  # no constant has such a type
        if (
            node.bodies
            or bounded
            or not operands
            or not all(isinstance(value, Constant) for value in operands)
        ):
            return False
        size = sum(value.type.bytes for value in node.outputs)
        fed = sum(value.type.bytes for value in operands)
        return node.op == "Pack" or size <= max(self.max_bytes, self.max_growth * fed)


def _fold(editor: Editor, node: Node) -> None:
    arrays = [plain_array(value) if isinstance(value, Constant) else None for value in node.inputs]
    with np.errstate(all="ignore"):  # what the run would give is wanted, infinities included
        results = operator_of(node).evaluate(arrays, node.attrs)
    for value, result in zip(list(node.outputs), results, strict=True):
        editor.replace(value, editor.constant(result, value.type, value.name))
