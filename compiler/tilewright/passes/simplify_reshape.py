"""Fewer reshapes, and transposes that are reshapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.ir import Constant, Function, Node
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import plain_array
from tilewright.passes.editor import Editor, apply_everywhere, merged_origin
from tilewright.storage import PLAIN


@dataclass(frozen=True)
class SimplifyReshape(FunctionPass):
    """Merge reshapes.

    1. Reshape(Reshape(x), shape)                    ->  Reshape(x, shape), or x when it has that shape
    2. Reshape(constant)                             ->  the constant in the other shape
    3. Transpose(x[1,64,1,1], perm=(0,2,3,1))        ->  Reshape(x, [1,1,1,64]): only axes of extent 1 move

    A Reshape of plain storage is a view and costs nothing, a Transpose is a copy. Idempotent; O(n).
    """

    name: ClassVar[str] = "simplify_reshape"

    def transform(self, function: Function) -> bool:
        return apply_everywhere(function, _simplify)


def _simplify(editor: Editor, node: Node) -> None:
    if node.op not in ("Reshape", "Transpose"):
        return
    x, result = node.operand(0), node.output
    if x.type.storage != PLAIN or result.type.storage != PLAIN:
        return
    if node.op == "Transpose":
        if _keeps_order(x.shape, node.attrs["perm"]):
            editor.replace(result, editor.insert(node, "Reshape", x, shape=result.shape))
        return
    if isinstance(x, Constant):
        editor.replace(result, editor.constant(plain_array(x).reshape(result.shape), result.type, x.name))
        return
    inner = x.producer
    if inner is None or inner.op != "Reshape" or inner.operand(0).type.storage != PLAIN:
        return
    source = inner.operand(0)
    if source.type == result.type:
        editor.replace(result, source)
    else:
        origin = merged_origin(inner, node)
        editor.replace(result, editor.insert(node, "Reshape", source, origin=origin, shape=result.shape))


def _keeps_order(shape: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    """Whether a permutation leaves the axes of more than one element in order."""
    long_axes = [axis for axis in perm if shape[axis] != 1]
    return long_axes == sorted(long_axes)
