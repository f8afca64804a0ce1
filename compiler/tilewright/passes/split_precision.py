"""Graph pass: products of float32 as several products of bf16, where the target expects that to be faster.

    %y = Conv(%x, %w, %b)   ->   %h = Cast(%x) {to=bf16}
                                 %r = Sub(%x, Cast(%h) {to=f32})
                                 %m = Cast(%r) {to=bf16}
                                 %l = Cast(Sub(%r, Cast(%m) {to=f32})) {to=bf16}
                                 %y = Conv(Concat(%h, %h, %h, %m, %m, %l) {axis=1}, %v, %b) {wide=true}

The planes of both operands stand side by side along the axis that is summed, so that one product adds up all
(ops/planes.py says which): %v holds the planes h, m, l, h, m, h of %w.

1. %w is a Constant: its planes are computed at once. Other products are left alone, and so are groups.
2. What several products read is split once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.dtypes import BF16, F32
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.ops.planes import ALGORITHM, PLANE_PAIRS, PLANES, planes_of
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import plain_array
from tilewright.passes.costs import PRODUCTS, Costs, choose_algorithm
from tilewright.passes.editor import Editor
from tilewright.types import TensorType


@dataclass(frozen=True)
class SplitPrecision(FunctionPass):
    """costs: says which products. Run before storages are chosen, after Winograd."""

    name: ClassVar[str] = "split_precision"
    costs: Costs

    def transform(self, function: Function) -> bool:
        editor = Editor(function)
        planes: dict[Value, Value] = {}
        for node in filter(_can_be_split, function.nodes):
            if choose_algorithm(node, self.costs) == ALGORITHM:
                _rewrite(editor, node, planes)
        return editor.finish()


def _can_be_split(node: Node) -> bool:
    if node.op not in PRODUCTS or not isinstance(node.operand(1), Constant):
        return False
    attrs = attributes(node)
    return node.operand(0).dtype == node.operand(1).dtype == F32 and attrs.get("group", 1) == 1


def _rewrite(editor: Editor, node: Node, planes: dict[Value, Value]) -> None:
    """planes: of operands, as far as they are split already."""
    x, weights = node.operand(0), node.operand(1)
    assert isinstance(weights, Constant)
    if x not in planes:
        planes[x] = _split(editor, node, x)
    parts = planes_of(plain_array(weights))
    data = np.concatenate([parts[right] for _, right in PLANE_PAIRS], _summed_axis(node))
    split = editor.constant(data, TensorType(BF16, data.shape), f"{weights.name}:{ALGORITHM}")
    attrs = {**node.attrs, "wide": True}
    result = editor.insert(node, node.op, planes[x], split, *node.inputs[2:], **attrs)
    assert result.producer is not None
    result.producer.notes = node.notes  # why it is split
    editor.replace(node.output, result)


def _split(editor: Editor, node: Node, x: Value) -> Value:
    """The planes of x side by side, as often as they are multiplied."""
    planes: list[Value] = []
    rest = x
    for _ in range(PLANES):
        if planes:
            rest = editor.insert(node, "Sub", rest, editor.insert(node, "Cast", planes[-1], to=F32))
        planes.append(editor.insert(node, "Cast", rest, to=BF16))
    axis = 1 if node.op == "Conv" else len(x.shape) - 1
    return editor.insert(node, "Concat", *(planes[left] for left, _ in PLANE_PAIRS), axis=axis)


def _summed_axis(node: Node) -> int:
    """The axis of the second operand that is summed over."""
    if node.op == "Conv":
        return 1
    return int(node.attrs.get("transB", 0)) if node.op == "Gemm" else 0
