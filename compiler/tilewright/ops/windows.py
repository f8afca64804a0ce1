"""Sliding windows of convolutions and pools: extents, positions, guards and counts along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, const, floordiv, maximum, minimum, mul, sub
from tilewright.ops.operator import Attrs


@dataclass(frozen=True)
class Window:
    """A window of `kernel` taps, `dilation` apart, that moves by `stride` over `extent` elements and padding.

    before, after: elements of padding. ceil: an incomplete last window counts, unless it starts in the end
    padding (ONNX, opset 22).
    """

    extent: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    ceil: bool = False

    @property
    def reach(self) -> int:
        """Elements from the first tap to the last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def outputs(self) -> int:
        """Number of windows."""
        room = self.extent + self.before + self.after - self.reach
        if not self.ceil:
            return room // self.stride + 1
        count = -(-room // self.stride) + 1
        return count - 1 if (count - 1) * self.stride >= self.extent + self.before else count

    @property
    def last(self) -> int:
        """Position of the last tap of the last window; at or above `extent` it lies in padding."""
        return (self.outputs - 1) * self.stride + self.reach - 1 - self.before

    def position(self, output: Expr, tap: Expr) -> Expr:
        """Where window `output` reads with `tap`; negative in the padding before."""
        start = mul(output, const(self.stride))
        return add(add(start, mul(tap, const(self.dilation))), const(-self.before))

    def guards(self, position: Expr) -> list[Expr]:
        """Conditions under which a position lies inside; none where every position does."""
        conditions = []
        if self.before > 0:
            conditions.append(binary("ge", position, const(0)))
        if self.last >= self.extent:
            conditions.append(binary("lt", position, const(self.extent)))
        return conditions

    def counts(self, include_padding: bool) -> np.ndarray:
        """How many taps of each window count for an average, i64[outputs]."""
        low, high = self._countable(include_padding)
        starts = np.arange(self.outputs)[:, None] * self.stride - self.before
        taps = starts + np.arange(self.kernel) * self.dilation
        return np.asarray(((taps >= low) & (taps < high)).sum(axis=1))

    def count(self, output: Expr, include_padding: bool) -> Expr:
        """`counts` as an expression of the window's number."""
        counts = self.counts(include_padding)
        if counts.size and (counts == counts[0]).all():
            return const(int(counts[0]))
        low, high = self._countable(include_padding)
        start = self.position(output, const(0))

        def taps_before(limit: int) -> Expr:
            distance = sub(const(limit + self.dilation - 1), start)
            taps = floordiv(distance, const(self.dilation))
            return minimum(maximum(taps, const(0)), const(self.kernel))

        return sub(taps_before(high), taps_before(low))

    def _countable(self, include_padding: bool) -> tuple[int, int]:
        return (-self.before, self.extent + self.after) if include_padding else (0, self.extent)


def per_axis(attrs: Attrs, key: str, rank: int, default: int, name: str) -> tuple[int, ...]:
    """An attribute with one number an axis, `default` where absent. Raises VerifyError for a wrong length."""
    given = attrs.get(key)
    values = (default,) * rank if given is None else tuple(int(v) for v in given)
    if len(values) != rank:
        raise VerifyError(f"{name}: attribute '{key}' has {len(values)} numbers, expected {rank}")
    return values


def windows(name: str, shape: Sequence[int], kernel: Sequence[int], attrs: Attrs) -> tuple[Window, ...]:
    """The windows over the spatial axes of `shape` [N, C, ...], from strides, dilations, pads and ceil_mode.

    Raises VerifyError for attributes of wrong length or sign, and for a kernel that does not fit.
    """
    extents = shape[2:]
    rank = len(extents)
    if len(kernel) != rank or not 1 <= rank <= 3:
        raise VerifyError(
            f"{name}: {len(kernel)} kernel axes on an input of {rank} spatial axes (1 to 3 work)"
        )
    strides = per_axis(attrs, "strides", rank, 1, name)
    dilations = per_axis(attrs, "dilations", rank, 1, name)
    pads = per_axis(attrs, "pads", 2 * rank, 0, name)
    if min(strides) < 1 or min(dilations) < 1 or min(kernel) < 1:
        raise VerifyError(f"{name}: kernel, strides and dilations must be positive")
    if min(pads) < 0:
        raise VerifyError(f"{name}: attribute 'pads' must not be negative, found {list(pads)}")
    ceil = bool(attrs.get("ceil_mode", 0))
    result = []
    for axis in range(rank):
        window = Window(
            extents[axis],
            kernel[axis],
            strides[axis],
            dilations[axis],
            pads[axis],
            pads[rank + axis],
            ceil,
        )
        if window.extent + window.before + window.after < window.reach:
            raise VerifyError(
                f"{name}: a kernel that reaches over {window.reach} elements does not fit axis {axis + 2} "
                f"of {window.extent} + {window.before} + {window.after} elements"
            )
        result.append(window)
    return tuple(result)


def pad_for(x: np.ndarray, over: Sequence[Window], value: float) -> np.ndarray:
    """x [N, C, ...] with `value` in all positions outside that a window reads."""
    widths = [(w.before, max(0, w.last - w.extent + 1)) for w in over]
    if not any(map(any, widths)):
        return x
    return np.pad(x, [(0, 0), (0, 0), *widths], constant_values=x.dtype.type(value))


def tap_view(padded: np.ndarray, over: Sequence[Window], tap: Sequence[int]) -> np.ndarray:
    """What all windows read with one tap: a view [N, C, outputs...]."""
    slices = [
        slice(t * w.dilation, t * w.dilation + (w.outputs - 1) * w.stride + 1, w.stride)
        for w, t in zip(over, tap, strict=True)
    ]
    return padded[(slice(None), slice(None), *slices)]


@dataclass(frozen=True)
class Transposed:
    """One spatial axis of a transposed convolution over `extent` elements.

    The full result has `full` elements; `before` are cropped at its start and `outputs` are kept, of which
    those beyond the full result (output_padding) are zero.
    """

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    outputs: int

    @property
    def full(self) -> int:
        return (self.extent - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


def transposed_windows(
    name: str, shape: Sequence[int], kernel: Sequence[int], attrs: Attrs
) -> tuple[Transposed, ...]:
    """The spatial axes of a transposed convolution. Raises VerifyError for attributes that do not fit."""
    extents = shape[2:]
    rank = len(extents)
    strides = per_axis(attrs, "strides", rank, 1, name)
    dilations = per_axis(attrs, "dilations", rank, 1, name)
    pads = per_axis(attrs, "pads", 2 * rank, 0, name)
    extra = per_axis(attrs, "output_padding", rank, 0, name)
    if min(extents) < 1 or min(kernel) < 1 or min(strides) < 1 or min(dilations) < 1:
        raise VerifyError(f"{name}: extents, kernel, strides and dilations must be positive")
    if min(extra) < 0:
        raise VerifyError(f"{name}: attribute 'output_padding' must not be negative, found {list(extra)}")
    result = []
    for axis in range(rank):
        window = Transposed(extents[axis], kernel[axis], strides[axis], dilations[axis], pads[axis], 0)
        outputs = window.full + extra[axis] - pads[axis] - pads[rank + axis]
        if outputs < 1 or min(pads) < 0:
            raise VerifyError(f"{name}: pads {list(pads)} leave {outputs} elements of axis {axis + 2}")
        result.append(replace(window, outputs=outputs))
    return tuple(result)
