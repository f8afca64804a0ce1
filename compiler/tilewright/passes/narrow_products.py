"""Graph pass: products of i32 of what were bytes as products of bytes, where the target expects a gain.

    %i = Cast(%x) {to=i32}   ->   %y = Conv(%x, %v, %b - z * sums of %w) {wide=true, pad_value=z}
    %c = Sub(%i, z)
    %y = Conv(%c, %w, %b)

sum (x - z) w = sum x w - z sum w, exactly, as sums wrap: the second part is a number for each column, which
is part of a Conv's bias and is subtracted after a MatMul.

1. %w is a Constant (the zero points of weights have been taken off) that i8 holds: %v. Others are left alone.
2. z is one number, or missing. A number that is computed is multiplied by the sums when the model runs; with
   padding it must be known and be a value of x, as that is what padding counts as.
3. Signed bytes become unsigned: %x + 128 - (z + 128). What several products read is made so once.
4. Terms are added GROUP at a time: channels, or columns of the first operand, are filled up with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tilewright.dtypes import I8, I32, U8
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.ops.quantized_products import ALGORITHM
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import is_single, plain_array
from tilewright.passes.costs import Costs, choose_algorithm
from tilewright.passes.editor import Editor
from tilewright.types import TensorType

GROUP = 4  # bytes that a lane of 32 bits holds
SHIFT = 128  # from signed to unsigned bytes


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
    data, limits = plain_array(weights), np.iinfo(np.int8)
    if data.size and (data.min() < limits.min or data.max() > limits.max):
        return "weights without their zero point exceed i8"
    if read.zero is not None and read.zero.type.size != 1:
        return "several zero points"
    if node.op == "Conv" and _pads(node) and (zero is None or not 0 <= zero <= 255):
        return "padding has no known value"
    return ""


def _pads(node: Node) -> bool:
    """Whether a convolution pads."""
    return any(attributes(node)["pads"] or ())


@dataclass
class _Rewriting:
    """unsigned: the unsigned bytes that stand for an operand whose summed axis is filled up by so many."""

    editor: Editor
    unsigned: dict[tuple[Value, int], Value] = field(default_factory=dict)

    def product(self, node: Node, read: _Bytes) -> None:
        known = node.operand(1)
        assert isinstance(known, Constant)
        weights, conv = plain_array(known), node.op == "Conv"
        summed = 1 if conv else 0
        fill = 0 if conv and attributes(node)["group"] > 1 else -weights.shape[summed] % GROUP
        widths = [(0, fill if axis == summed else 0) for axis in range(weights.ndim)]
        filled = np.pad(weights, widths)
        x = self._unsigned(node, read, 1 if conv else len(read.x.shape) - 1, fill)
        w = self.editor.constant(filled, TensorType(I8, filled.shape), f"{known.name}:i8")
        sums = weights.sum(axis=tuple(range(1, weights.ndim)) if conv else 0, dtype=np.int32)
        shift = self._shift(node, read, sums)
        result = self._conv(node, read, x, w, shift) if conv else self._matmul(node, x, w, shift)
        self.editor.replace(node.output, result)

    def _conv(self, node: Node, read: _Bytes, x: Value, w: Value, shift: Value | None) -> Value:
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if shift is not None:
            bias = self._less(node, bias, shift)
        attrs = {**node.attrs, "wide": True}
        if _pads(node):
            attrs["pad_value"] = read.known_zero
        return _with_notes(self.editor.insert(node, "Conv", x, w, bias, **attrs), node)

    def _matmul(self, node: Node, x: Value, w: Value, shift: Value | None) -> Value:
        total = _with_notes(self.editor.insert(node, "MatMul", x, w, wide=True), node)
        return total if shift is None else self.editor.insert(node, "Sub", total, shift)

    def _unsigned(self, node: Node, read: _Bytes, axis: int, fill: int) -> Value:
        """x without signs, and `fill` zeros behind it along the axis."""
        key, x, insert = (read.x, fill), read.x, self.editor.insert
        if key in self.unsigned:
            return self.unsigned[key]
        if read.shift:
            shift = self.editor.constant(np.array(SHIFT), TensorType(U8, ()), "shift")
            x = insert(node, "Add", insert(node, "Cast", x, to=U8), shift)
        if fill:
            after = tuple(fill if position == axis else 0 for position in range(len(x.shape)))
            x = insert(node, "Pad", x, None, pads=(*(0 for _ in after), *after))
        self.unsigned[key] = x
        return x

    def _shift(self, node: Node, read: _Bytes, sums: np.ndarray) -> Value | None:
        """What the zero point adds to each column, i32[columns]; None for nothing."""
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

    def _less(self, node: Node, bias: Value | None, shift: Value) -> Value:
        """bias - shift, at once where both are known."""
        start = bias or self.editor.constant(np.zeros(shift.shape), shift.type, "bias")
        if isinstance(start, Constant) and isinstance(shift, Constant):
            return self.editor.constant(plain_array(start) - plain_array(shift), shift.type, "bias")
        return self.editor.insert(node, "Sub", start, shift)


def _with_notes(result: Value, node: Node) -> Value:
    """Why a product is of bytes is noted at the new one too."""
    assert result.producer is not None
    result.producer.notes = node.notes
    return result
