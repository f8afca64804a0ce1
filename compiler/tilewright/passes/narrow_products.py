"""Graph pass: products of i32 of what were bytes as products of bytes, where the target expects a gain.

    %i = Cast(%x) {to=i32}   ->   %y = Conv(%x, %v, %b - z * sums of %w) {wide=true, pad_value=z}
    %c = Sub(%i, z)
    %y = Conv(%c, %w, %b)

sum (x - z) w = sum x w - z sum w, exactly, as sums wrap: the second part is a number for each column, which
is part of a Conv's bias and is subtracted after a MatMul.

1. %w is a Constant (the zero points of weights have been taken off): %v in i8. Where i8 does not hold all of
   it, differences of bytes are the sum of two or three %v, and %y of as many products. Others are left alone.
2. z is one number, or missing. It is what padding counts as. A number that is computed is multiplied by the
   sums when the model runs; with padding these are a sum for each result, of the weights that meet elements:
   %y = Sub(Conv(%x, %v, %b) {pads=..., wide=true}, Mul(sums, z)).
3. Signed bytes become unsigned: %x + 128 - (z + 128). What several products read is made so once.
4. Terms are added GROUP at a time: channels, or columns of the first operand, are filled up with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tilewright.dtypes import I8, I32, U8
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.convolution import convolve
from tilewright.ops.declaration import attributes
from tilewright.ops.quantized_products import ALGORITHM
from tilewright.ops.windows import windows
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import is_single, plain_array
from tilewright.passes.costs import Costs, choose_algorithm
from tilewright.passes.editor import Editor
from tilewright.types import TensorType

GROUP = 4  # bytes that a lane of 32 bits holds
SHIFT = 128  # from signed to unsigned bytes
LARGEST = 255  # difference of two bytes


@dataclass(frozen=True)
class NarrowProducts(FunctionPass):
    """costs: says which products. Run before storages are chosen."""

    name: ClassVar[str] = "narrow_products"
    costs: Costs

    def transform(self, function: Function) -> bool:
        rewriting = _Rewriting(Editor(function))
        for node in function.nodes:
            bytes_read = _centred_bytes(node)
            if bytes_read is None or choose_algorithm(node, self.costs) != ALGORITHM:
                continue
            reason = _obstacle(node, bytes_read)
            if reason:
                node.notes["algorithm"] |= {"chosen": "direct", "reason": reason}
            else:
                rewriting.product(node, bytes_read)
        return rewriting.editor.finish()


@dataclass(frozen=True)
class _Bytes:
    """x - zero in i32, of bytes x; zero: an i32, or None for 0."""

    x: Value
    zero: Value | None

    @property
    def shift(self) -> int:
        """What x and zero are raised by."""
        return SHIFT if self.x.dtype == I8 else 0

    @property
    def known_zero(self) -> int | None:
        """The zero point of the unsigned bytes; None where it is computed."""
        if self.zero is None:
            return self.shift
        return int(plain_array(self.zero).item()) + self.shift if is_single(self.zero) else None


def _centred_bytes(node: Node) -> _Bytes | None:
    """What a product of i32 reads first, as bytes and a zero point; None when it is something else."""
    if node.op not in ("Conv", "MatMul") or node.output.dtype != I32:
        return None
    value, zero = node.operand(0), None
    difference = value.producer
    if difference is not None and difference.op == "Sub":
        value, zero = difference.operand(0), difference.operand(1)
    cast = value.producer
    if cast is None or cast.op != "Cast" or cast.operand(0).dtype not in (I8, U8):
        return None
    return _Bytes(cast.operand(0), zero) if value.shape == node.operand(0).shape else None


def _obstacle(node: Node, read: _Bytes) -> str:
    """Why a product keeps i32; '' when nothing is in the way."""
    weights, zero = node.operand(1), read.known_zero
    if not isinstance(weights, Constant):
        return "weights are computed"
    if np.abs(plain_array(weights).astype(np.int64)).max(initial=0) > LARGEST:
        return "weights are no differences of bytes"
    if read.zero is not None and read.zero.type.size != 1:
        return "several zero points"
    if zero is not None and node.op == "Conv" and _pads(node) and not 0 <= zero <= 255:
        return "padding exceeds u8"
    return ""


def _pads(node: Node) -> bool:
    """Whether a convolution pads."""
    return any(attributes(node)["pads"] or ())


@dataclass
class _Rewriting:
    """raised: operands with a sign as bytes without; filled: operands, by axis and by how much that grows."""

    editor: Editor
    raised: dict[Value, Value] = field(default_factory=dict)
    filled: dict[tuple[Value, int, int], Value] = field(default_factory=dict)

    def product(self, node: Node, read: _Bytes) -> None:
        known = node.operand(1)
        assert isinstance(known, Constant)
        weights, conv = plain_array(known), node.op == "Conv"
        summed = 1 if conv else 0
        fill = 0 if conv and attributes(node)["group"] > 1 else -weights.shape[summed] % GROUP
        widths = [(0, fill if axis == summed else 0) for axis in range(weights.ndim)]
        x = self._filled(node, self._unsigned(node, read), 1 if conv else len(read.x.shape) - 1, fill)
        first, *others = (
            self.editor.constant(part, TensorType(I8, part.shape), f"{known.name}:i8")
            for part in _in_i8(np.pad(weights, widths))
        )
        by_result = conv and _pads(node) and read.known_zero is None
        sums = _sums_by_result(node, weights) if by_result else _sums(node, weights)
        attrs = {**node.attrs, "wide": True}
        if conv and _pads(node):
            attrs["pad_value"] = read.known_zero or 0
        if conv and not by_result:
            bias = self._less(node, _bias(node), self._shift(node, read, sums))
            result = self._product(node, x, first, bias, **attrs)
        else:
            total = self._product(node, x, first, *node.inputs[2:], **attrs)
            shift = self._shift(node, read, sums)
            result = total if shift is None else self.editor.insert(node, "Sub", total, shift)
        for w in others:
            result = self.editor.insert(node, "Add", self._product(node, x, w, **attrs), result)
        self.editor.replace(node.output, result)

    def _product(self, node: Node, *operands: Value | None, **attrs: Any) -> Value:
        """The product in place of a node, with its notes: why it is of bytes."""
        result = self.editor.insert(node, node.op, *operands, **attrs)
        assert result.producer is not None
        result.producer.notes = node.notes
        return result

    def _unsigned(self, node: Node, read: _Bytes) -> Value:
        x = read.x
        if not read.shift:
            return x
        if x not in self.raised:
            shift = self.editor.constant(np.array(SHIFT), TensorType(U8, ()), "shift")
            self.raised[x] = self.editor.insert(
                node, "Add", self.editor.insert(node, "Cast", x, to=U8), shift
            )
        return self.raised[x]

    def _filled(self, node: Node, x: Value, axis: int, fill: int) -> Value:
        """x with `fill` zeros behind it along the axis."""
        if not fill:
            return x
        if (x, axis, fill) not in self.filled:
            after = tuple(fill if position == axis else 0 for position in range(len(x.shape)))
            pads = (*(0 for _ in after), *after)
            self.filled[x, axis, fill] = self.editor.insert(node, "Pad", x, None, pads=pads)
        return self.filled[x, axis, fill]

    def _shift(self, node: Node, read: _Bytes, sums: np.ndarray) -> Value | None:
        """What the zero point adds, of the shape of the sums; None for nothing."""
        zero, type = read.known_zero, TensorType(I32, sums.shape)
        if zero is not None:
            shift = (sums.astype(np.int64) * zero).astype(np.int32)
            return self.editor.constant(shift, type, "shift") if zero else None
        assert read.zero is not None
        point = self.editor.insert(node, "Reshape", read.zero, shape=())
        if read.shift:
            raised = self.editor.constant(np.array(read.shift), TensorType(I32, ()), "shift")
            point = self.editor.insert(node, "Add", point, raised)
        return self.editor.insert(node, "Mul", self.editor.constant(sums, type, "sums"), point)

    def _less(self, node: Node, bias: Value | None, shift: Value | None) -> Value | None:
        """bias - shift, at once where both are known."""
        if shift is None:
            return bias
        start = bias or self.editor.constant(np.zeros(shift.shape), shift.type, "bias")
        if isinstance(start, Constant) and isinstance(shift, Constant):
            return self.editor.constant(plain_array(start) - plain_array(shift), shift.type, "bias")
        return self.editor.insert(node, "Sub", start, shift)


def _bias(node: Node) -> Value | None:
    return node.inputs[2] if len(node.inputs) > 2 else None


def _in_i8(weights: np.ndarray) -> list[np.ndarray]:
    """Arrays within i8 whose sum the weights are; one at least."""
    limits = np.iinfo(np.int8)
    part = np.clip(weights, limits.min, limits.max)
    rest = weights - part
    return [part, *_in_i8(rest)] if rest.any() else [part]


def _sums(node: Node, weights: np.ndarray) -> np.ndarray:
    """Of the weights of each column."""
    axes = tuple(range(1, weights.ndim)) if node.op == "Conv" else 0
    return np.asarray(weights.sum(axis=axes, dtype=np.int32))


def _sums_by_result(node: Node, weights: np.ndarray) -> np.ndarray:
    """Of the weights that meet elements, not padding, [1, columns, ...]; all channels meet the same."""
    shape = node.operand(0).shape
    over = windows("Conv", shape, weights.shape[2:], attributes(node))
    ones = np.ones((1, 1, *shape[2:]), weights.dtype)
    return convolve(ones, weights.sum(axis=1, keepdims=True, dtype=weights.dtype), over, 1)
