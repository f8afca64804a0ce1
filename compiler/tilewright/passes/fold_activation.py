"""Chains of clamping activations become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import is_single, plain_array
from tilewright.passes.editor import Editor, apply_everywhere, merged_origin
from tilewright.storage import PLAIN
from tilewright.types import TensorType


@dataclass(frozen=True)
class Bounds:
    """min(max(x, low), high); None is no bound. Scalars of x's element type."""

    low: np.generic | None
    high: np.generic | None

    def after(self, inner: Bounds) -> Bounds:
        """The bounds that equal clamping by `inner` first and by these then, crossing bounds included."""
        carried = inner.high if self.low is None else _pick(np.maximum, inner.high, self.low, both=True)
        return Bounds(_pick(np.maximum, inner.low, self.low), _pick(np.minimum, carried, self.high))


@dataclass(frozen=True)
class FoldActivation(FunctionPass):
    """Merge clamps that follow each other. Relu is Clip with the bounds 0 and none.

    1. Relu(Relu(x))                ->  Relu(x)
    2. Relu(Clip(x, -1, 6))         ->  Clip(x, 0, 6)
    3. Clip(Relu(x), -1, 6)         ->  Clip(x, 0, 6)
    4. Clip(Clip(x, a, b), c, d)    ->  Clip(x, max(a, c), min(max(b, c), d))
    5. Clip(x, 0)                   ->  Relu(x)

    Bounds must be constants and no NaN; the inner clamp must have no other reader, otherwise both would be
    computed from x. Run before `lower`, which turns Clip into Max and Min. Idempotent; O(n).
    A constant added to a convolution is folded into its bias by fold_batch_norm.
    """

    name: ClassVar[str] = "fold_activation"

    def transform(self, function: Function) -> bool:
        return apply_everywhere(function, _merge)


def _merge(editor: Editor, node: Node) -> None:
    outer = _bounds(node)
    if outer is None or node.output.type.storage != PLAIN:
        return
    x = node.operand(0)
    inner_node = x.producer
    inner = None if inner_node is None or x.type.storage != PLAIN else _bounds(inner_node)
    if inner_node is not None and inner is not None and (editor.only_use(x) or outer == inner):
        origin = merged_origin(inner_node, node)
        _clamp(editor, node, inner_node.operand(0), outer.after(inner), origin)
    elif node.op == "Clip" and outer.high is None and outer.low == 0:
        _clamp(editor, node, x, outer, node.origin)


def _bounds(node: Node) -> Bounds | None:
    """The constant bounds of a clamp; None for any other node."""
    dtype = node.outputs[0].dtype
    if node.op == "Relu":
        return Bounds(dtype.numpy.type(0), None)
    if node.op != "Clip":
        return None
    given = [*node.inputs[1:], None, None][:2]
    if not all(value is None or is_single(value) for value in given):
        return None
    low, high = (_scalar(value) for value in given)
    if any(bound is not None and bool(bound != bound) for bound in (low, high)):
        return None
    return Bounds(low, high)


def _scalar(value: Value | None) -> np.generic | None:
    return plain_array(value).reshape(-1)[0] if isinstance(value, Constant) else None


def _pick(
    function: np.ufunc, first: np.generic | None, second: np.generic | None, both: bool = False
) -> np.generic | None:
    """The tighter of two bounds. both: without the first there is none at all."""
    if first is None:
        return None if both else second
    return first if second is None else function(first, second)


def _clamp(editor: Editor, node: Node, x: Value, bounds: Bounds, origin: tuple[str, ...]) -> None:
    if bounds.high is None and bounds.low is not None and bounds.low == 0:
        editor.replace(node.output, editor.insert(node, "Relu", x, origin=origin))
        return
    low, high = (
        _constant(editor, node, bound, name) for bound, name in ((bounds.low, "min"), (bounds.high, "max"))
    )
    editor.replace(node.output, editor.insert(node, "Clip", x, low, high, origin=origin))


def _constant(editor: Editor, node: Node, bound: np.generic | None, name: str) -> Value | None:
    if bound is None:
        return None
    return editor.constant(np.asarray(bound), TensorType(node.output.dtype, ()), f"{node.name}.{name}")
