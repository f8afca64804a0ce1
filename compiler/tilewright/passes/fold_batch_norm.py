"""Batch normalisation and other per-channel arithmetic folded into the weights before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import float64_array
from tilewright.passes.editor import Editor, apply_everywhere, merged_origin, take_name
from tilewright.storage import PLAIN
from tilewright.types import TensorType

_CHANNEL = 1  # the channel axis of every result that is folded into


@dataclass(frozen=True)
class Affine:
    """y = x * scale + shift; both in float64, one value a channel."""

    scale: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True)
class FoldBatchNorm(FunctionPass):
    """Fold y = x * s + t, s and t constant per channel, into the linear operator that makes x.

    What is folded:
    1. BatchNormalization(x, scale, bias, mean, var)    s = scale / sqrt(var + epsilon), t = bias - mean * s
    2. Mul(x, c), Div(x, c)                             s = c or 1 / c
    3. Add(x, c), Sub(x, c), Sub(c, x)                  t = c or -c (and s = -1)
    Into what:
    a. Conv(x, w, b)            ->  Conv(x, w * s, b * s + t)       w's axis 0 is the channel
    b. ConvTranspose(x, w, b)   ->  likewise; channel g * O/group + o is w's axis 1 within group g of axis 0
    c. Gemm(a, w, c)            ->  Gemm(a, w * s, beta * c * s + t), beta = 1
    d. MatMul(a, w), rank 2     ->  Gemm(a, w * s, t)

    Weights and bias must be constants. Arithmetic is done in float64 and rounded once. Never when x is read
    by anything else or is an output of the function. Idempotent; O(n) besides the arithmetic.
    """

    name: ClassVar[str] = "fold_batch_norm"

    def transform(self, function: Function) -> bool:
        return apply_everywhere(function, _fold_into_producer)


def _fold_into_producer(editor: Editor, node: Node) -> None:
    found = _affine_operand(node)
    if found is None:
        return
    x, affine = found
    linear = x.producer
    if linear is None or linear.op not in _FOLDS or not editor.only_use(x):
        return
    if x.type.storage != PLAIN:  # later passes chose storages: weights are no longer as this pass knows them
        return
    _FOLDS[linear.op](editor, linear, node, affine)


def _affine_operand(node: Node) -> tuple[Value, Affine] | None:
    """The operand that is scaled and shifted, and by what; None when the node is nothing of the kind."""
    if node.op == "BatchNormalization":
        return _batch_norm(node)
    if node.op not in ("Mul", "Div", "Add", "Sub"):
        return None
    first, second = node.operand(0), node.operand(1)
    swapped = float64_array(second) is None
    x, constant = (second, first) if swapped else (first, second)
    vector = _per_channel(constant, x)
    if vector is None or x.type != node.output.type or (swapped and node.op == "Div"):
        return None
    one, zero = np.ones_like(vector), np.zeros_like(vector)
    match node.op:
        case "Mul":
            return x, Affine(vector, zero)
        case "Div":
            # A zero divisor makes infinities that depend on x; they are left to the division itself.
            return (x, Affine(1 / vector, zero)) if (vector != 0).all() else None
        case "Add":
            return x, Affine(one, vector)
        case _:
            return x, (Affine(-one, vector) if swapped else Affine(one, -vector))


def _batch_norm(node: Node) -> tuple[Value, Affine] | None:
    scale, bias, mean, variance = (float64_array(node.operand(index)) for index in range(1, 5))
    if scale is None or bias is None or mean is None or variance is None:
        return None
    with np.errstate(all="ignore"):  # a negative variance makes NaN here as it would at run time
        factor = scale / np.sqrt(variance + attributes(node)["epsilon"])
        return node.operand(0), Affine(factor, bias - mean * factor)


def _per_channel(constant: Value, x: Value) -> np.ndarray | None:
    """A constant operand as one value a channel of x; None when it varies along another axis."""
    array = float64_array(constant)
    rank = x.type.rank
    if array is None or rank < 2 or array.ndim > rank:
        return None
    channels = x.shape[_CHANNEL]
    full = array.reshape((1,) * (rank - array.ndim) + array.shape)
    if full.size != full.shape[_CHANNEL] or full.size not in (1, channels):
        return None
    return np.broadcast_to(full.reshape(-1), (channels,)).copy()


def _fold_conv(editor: Editor, linear: Node, node: Node, affine: Affine) -> None:
    rank = linear.operand(1).type.rank
    _rebuild(editor, linear, node, affine, _along(affine.scale, rank, 0))


def _fold_conv_transpose(editor: Editor, linear: Node, node: Node, affine: Affine) -> None:
    shape, group = linear.operand(1).shape, int(attributes(linear)["group"])
    rows = np.repeat(affine.scale.reshape(group, -1), shape[0] // group, axis=0)  # [I, O/group]
    _rebuild(editor, linear, node, affine, rows.reshape(rows.shape + (1,) * (len(shape) - 2)))


def _fold_gemm(editor: Editor, linear: Node, node: Node, affine: Affine) -> None:
    attrs = attributes(linear)
    factor = _along(affine.scale, 2, 0 if attrs["transB"] else 1)
    _rebuild(editor, linear, node, affine, factor, beta=attrs["beta"], changed={"beta": 1.0})


def _fold_matmul(editor: Editor, linear: Node, node: Node, affine: Affine) -> None:
    if linear.operand(0).type.rank == 2 and linear.operand(1).type.rank == 2:
        _rebuild(editor, linear, node, affine, affine.scale, op="Gemm")


def _rebuild(
    editor: Editor,
    linear: Node,
    node: Node,
    affine: Affine,
    factor: np.ndarray,
    beta: float = 1.0,
    op: str | None = None,
    changed: Mapping[str, float] | None = None,
) -> None:
    """Put the linear operator, weights times `factor`, bias scaled and shifted, in place of `node`."""
    weights, bias = linear.operand(1), linear.inputs[2] if len(linear.inputs) > 2 else None
    old_shift = float64_array(bias)
    if not isinstance(weights, Constant) or (bias is not None and old_shift is None):
        return
    shift = affine.shift if old_shift is None else beta * old_shift * affine.scale + affine.shift
    if shift.ndim == 2 and shift.shape[0] == 1:
        shift = shift.reshape(-1)
    name = f"{linear.name}.bias" if bias is None else bias.name
    operands = (
        linear.operand(0),
        editor.constant(_scaled(weights, factor), weights.type, weights.name),
        editor.constant(shift, TensorType(weights.dtype, shift.shape), name),
    )
    attrs = {**linear.attrs, **(changed or {})}
    result = editor.insert(node, op or linear.op, *operands, origin=merged_origin(linear, node), **attrs)
    editor.replace(node.output, result)
    take_name(result.producer, linear)


def _scaled(weights: Constant, factor: np.ndarray) -> np.ndarray:
    """The product, in float64 piece by piece: whole weights in float64 would take time and memory."""
    result = np.empty_like(weights.data)
    np.multiply(weights.data, factor, out=result, dtype=np.float64, casting="unsafe")
    return result


def _along(vector: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A vector that broadcasts along one axis of a tensor."""
    return vector.reshape([-1 if position == axis else 1 for position in range(rank)])


_FOLDS: dict[str, Callable[[Editor, Node, Node, Affine], None]] = {
    "Conv": _fold_conv,
    "ConvTranspose": _fold_conv_transpose,
    "Gemm": _fold_gemm,
    "MatMul": _fold_matmul,
}
