"""Batch normalisation and other per-channel arithmetic folded into the weights before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import float64_array
from tilewright.passes.editor import Editor, apply_everywhere, merged_origin
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
    _fold_convolution(editor, linear, node, affine, lambda w: _along(affine.scale, w.ndim, 0))


def _fold_conv_transpose(editor: Editor, linear: Node, node: Node, affine: Affine) -> None:
    group = int(attributes(linear)["group"])

    def factor(w: np.ndarray) -> np.ndarray:
        rows = np.repeat(affine.scale.reshape(group, -1), w.shape[0] // group, axis=0)  # [I, O/group]
        return rows.reshape(rows.shape + (1,) * (w.ndim - 2))

    _fold_convolution(editor, linear, node, affine, factor)


def _fold_convolution(
    editor: Editor, linear: Node, node: Node, affine: Affine, factor: Callable[[np.ndarray], np.ndarray]
) -> None:
    weights, bias = linear.operand(1), linear.inputs[2] if len(linear.inputs) > 2 else None
    w, b = float64_array(weights), float64_array(bias)
    if w is None or (bias is not None and b is None):
        return
    shift = affine.shift if b is None else b * affine.scale + affine.shift
    operands = (
        linear.operand(0),
        editor.constant(w * factor(w), weights.type, weights.name),
        editor.constant(shift, TensorType(weights.dtype, shift.shape), _bias_name(linear, bias)),
    )
    result = editor.insert(node, linear.op, *operands, origin=merged_origin(linear, node), **linear.attrs)
    editor.replace(node.output, result)


def _fold_gemm(editor: Editor, linear: Node, node: Node, affine: Affine) -> None:
    attrs = attributes(linear)
    weights, bias = linear.operand(1), linear.inputs[2] if len(linear.inputs) > 2 else None
    w, c = float64_array(weights), float64_array(bias)
    if w is None or (bias is not None and c is None):
        return
    shift = affine.shift if c is None else attrs["beta"] * c * affine.scale + affine.shift
    if shift.ndim == 2 and shift.shape[0] == 1:
        shift = shift.reshape(-1)
    operands = (
        linear.operand(0),
        editor.constant(w * _along(affine.scale, 2, 0 if attrs["transB"] else 1), weights.type, weights.name),
        editor.constant(shift, TensorType(weights.dtype, shift.shape), _bias_name(linear, bias)),
    )
    changed = {**linear.attrs, "beta": 1.0}
    result = editor.insert(node, "Gemm", *operands, origin=merged_origin(linear, node), **changed)
    editor.replace(node.output, result)


def _fold_matmul(editor: Editor, linear: Node, node: Node, affine: Affine) -> None:
    weights = linear.operand(1)
    w = float64_array(weights)
    if w is None or w.ndim != 2 or linear.operand(0).type.rank != 2:
        return
    operands = (
        linear.operand(0),
        editor.constant(w * affine.scale, weights.type, weights.name),
        editor.constant(
            affine.shift, TensorType(weights.dtype, affine.shift.shape), _bias_name(linear, None)
        ),
    )
    result = editor.insert(node, "Gemm", *operands, origin=merged_origin(linear, node))
    editor.replace(node.output, result)


def _along(vector: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A vector that broadcasts along one axis of a tensor."""
    return vector.reshape([-1 if position == axis else 1 for position in range(rank)])


def _bias_name(linear: Node, bias: Value | None) -> str:
    return f"{linear.name}.bias" if bias is None else bias.name


_FOLDS = {
    "Conv": _fold_conv,
    "ConvTranspose": _fold_conv_transpose,
    "Gemm": _fold_gemm,
    "MatMul": _fold_matmul,
}
