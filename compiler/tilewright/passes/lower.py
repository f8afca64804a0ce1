"""Lowering of operators to simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from tilewright.errors import LoweringError
from tilewright.graph.ir import Function, Node
from tilewright.ops.operator import operator_of
from tilewright.passes.base import FunctionPass
from tilewright.passes.editor import Editor

_MAX_DEPTH = 16  # no operator needs more steps to reach the primitives; a cycle of rules would


def always(node: Node) -> bool:
    """Lower everything that has a rule."""
    return True


@dataclass(frozen=True)
class Lower(FunctionPass):
    """Replace every operator that has a `lower` rule by simpler operators, until none is left.

    1. one step        y = Clip(x, lo, hi)             ->  t = Max(x, lo); y = Min(t, hi)
    2. several steps   y = GlobalAveragePool(x)        ->  ReduceMean  ->  ReduceSum, Mul
    3. control flow    y = LSTM(x, w, r)               ->  MatMul, Scan {..}; the body is lowered too

    should_lower: the target's choice, node by node; a node that it keeps must be one that the target compiles
    itself. New nodes carry the origin of the node they replace. Idempotent; O(n).
    Raises LoweringError for rules that lead in a circle.
    """

    name: ClassVar[str] = "lower"
    should_lower: Callable[[Node], bool] = field(default=always, compare=False)

    def transform(self, function: Function) -> bool:
        editor = Editor(function)
        pending = [(node, 0) for node in reversed(function.nodes)]
        while pending:
            node, depth = pending.pop()
            rule = operator_of(node).lower
            if not editor.alive(node) or rule is None or not self.should_lower(node):
                continue
            if depth == _MAX_DEPTH:
                raise LoweringError(
                    f"node '{node.name}': lowering {node.op} does not end, its rules form a circle"
                )
            node.origin = node.origin or (node.name,)
            editor.take_touched()
            results = editor.expand(node, rule)
            pending.extend((fresh, depth + 1) for fresh in reversed(editor.take_touched()))
            for old, new in zip(list(node.outputs), results, strict=True):
                editor.replace(old, new)
            editor.erase_dead(node)
        return editor.finish()
