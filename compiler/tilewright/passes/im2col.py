"""Convolutions as a matrix of patches and a product, for the ablation of direct convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.ops.patches import matrix_of_weights
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import plain_array
from tilewright.passes.editor import Editor
from tilewright.types import TensorType


@dataclass(frozen=True)
class Im2col(FunctionPass):
    """Lay out every window that a convolution reads, and multiply.

    1. weights that are constants are put in order at once, others by Transpose and Reshape:
           Conv(x, w, b) {pads=...}    ->  Conv(Patches(x) {kernel_shape=..., pads=...}, w', b)
    2. groups: the channels of a group's patches lie side by side, so the product keeps its groups
    3. left alone: what is a product already (one tap, stride 1, no padding), depthwise convolutions, whose
       products have a depth of one channel, and padding other than 0

    The product stands as a 1x1 convolution: its rows are pixels, its depth the patches' channels. So it keeps
    template, packed weights and fusion of any other, and its result needs no transposition. Run before
    storages are chosen. Idempotent; O(n).
    """

    name: ClassVar[str] = "im2col"

    def transform(self, function: Function) -> bool:
        editor = Editor(function)
        for node in function.nodes:
            if suits(node):
                _rewrite(editor, node)
        return editor.finish()


def suits(node: Node) -> bool:
    """Whether a node is a convolution that case 3 does not leave alone."""
    if node.op != "Conv":
        return False
    attrs, weights = attributes(node), node.operand(1).shape
    one_tap = all(n == 1 for n in (*weights[2:], *(attrs["strides"] or ())))
    product = one_tap and not any(attrs["pads"] or ())
    depthwise = attrs["group"] > 1 and weights[1] == 1
    return not product and not depthwise and not attrs["pad_value"]


def _rewrite(editor: Editor, node: Node) -> None:
    attrs, x, weights = attributes(node), node.operand(0), node.operand(1)
    rank = len(weights.shape) - 2
    windows = {key: attrs[key] for key in ("strides", "dilations", "pads") if attrs[key]}
    patches = editor.insert(
        node, "Patches", x, kernel_shape=weights.shape[2:], group=attrs["group"], **windows
    )
    single = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank}
    operands = (patches, _matrix(editor, node, weights), *node.inputs[2:])
    editor.replace(node.output, editor.insert(node, "Conv", *operands, **{**node.attrs, **single}))


def _matrix(editor: Editor, node: Node, weights: Value) -> Value:
    """The weights as [O, taps * C/group, 1, ...], case 1."""
    if isinstance(weights, Constant):
        matrix = matrix_of_weights(plain_array(weights))
        return editor.constant(matrix, TensorType(weights.dtype, matrix.shape), f"{weights.name}:matrix")
    out, rank = weights.shape[0], len(weights.shape)
    turned = editor.insert(node, "Transpose", weights, perm=(0, *range(2, rank), 1))
    shape = (out, weights.type.size // out, *(1 for _ in range(2, rank)))
    return editor.insert(node, "Reshape", turned, shape=shape)
