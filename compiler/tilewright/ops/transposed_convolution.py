"""Transposed convolution, and how it becomes a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, attributes, operator, required, same_dtype, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.ops.windows import Transposed, transposed_windows
from tilewright.types import TensorType

MAX_PHASES = 8  # convolutions that one transposed convolution becomes at most


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    same_dtype("ConvTranspose", types)
    x, w, bias = required(types, 0), required(types, 1), types[2]
    group = attrs["group"]
    if x.rank < 3 or w.rank != x.rank:
        raise VerifyError(
            f"ConvTranspose: input has rank {x.rank} and weights rank {w.rank}, expected one rank from 3 to 5"
        )
    if w.shape[0] != x.shape[1]:
        raise VerifyError(f"ConvTranspose: weights have {w.shape[0]} input channels, input has {x.shape[1]}")
    if group < 1 or x.shape[1] % group:
        raise VerifyError(f"ConvTranspose: {x.shape[1]} channels do not divide into {group} groups")
    channels = w.shape[1] * group
    if bias is not None and bias.shape != (channels,):
        raise VerifyError(f"ConvTranspose: bias has shape {list(bias.shape)}, expected [{channels}]")
    over = transposed_windows("ConvTranspose", x.shape, w.shape[2:], attrs)
    return (TensorType(x.dtype, (x.shape[0], channels, *(a.outputs for a in over))),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    """Every tap adds its product with the input to a strided part of the full result, cropped at last."""
    x, w, bias = required(arrays, 0), required(arrays, 1), arrays[2]
    over = transposed_windows("ConvTranspose", x.shape, w.shape[2:], attrs)
    group, work = attrs["group"], wide(x.dtype)
    batch, pixels = x.shape[0], prod(x.shape[2:])
    source = x.astype(work, copy=False).reshape(batch, group, -1, pixels)
    weights = w.astype(work, copy=False).reshape(group, -1, *w.shape[1:])
    full = np.zeros((batch, group, w.shape[1], *(max(a.full, a.before + a.outputs) for a in over)), work)
    for tap in np.ndindex(*w.shape[2:]):
        matrix = weights[(slice(None), slice(None), slice(None), *tap)].swapaxes(1, 2)
        places = [
            slice(t * a.dilation, t * a.dilation + (a.extent - 1) * a.stride + 1, a.stride)
            for t, a in zip(tap, over, strict=True)
        ]
        part = np.matmul(matrix, source).reshape(batch, group, w.shape[1], *x.shape[2:])
        full[(slice(None), slice(None), slice(None), *places)] += part
    kept = [slice(a.before, a.before + a.outputs) for a in over]
    y = full[(slice(None), slice(None), slice(None), *kept)]
    y = y.reshape(batch, group * w.shape[1], *(a.outputs for a in over))
    if bias is not None:
        y = y + bias.reshape(-1, *(1 for _ in over)).astype(work)
    return (y.astype(x.dtype, copy=False),)


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """One of four forms.

    1. One input pixel, one group: a matrix product gives all taps at once.
    2. No dilation, few phases: a convolution for each phase of the stride, then a pixel shuffle.
    3. No dilation: one convolution with channels for all phases, whose border is in vain, then the same.
    4. Otherwise: zeros between the pixels, then a convolution with the mirrored kernel.
    """
    x, w = node.operand(0), node.operand(1)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    attrs = attributes(node)
    over = transposed_windows("ConvTranspose", x.shape, w.shape[2:], attrs)
    dense = all(a.dilation == 1 for a in over)
    if dense and attrs["group"] == 1 and all(a.extent == 1 for a in over):
        return (_from_one_pixel(build, x, w, bias, over),)
    if dense and 1 < prod(a.stride for a in over) <= MAX_PHASES:
        return (_phase_by_phase(build, x, w, bias, over, attrs["group"]),)
    if dense:
        return (_by_phases(build, x, w, bias, over, attrs["group"]),)
    return (_by_zero_insertion(build, x, w, bias, over, attrs["group"]),)


def _from_one_pixel(
    build: Builder, x: Value, w: Value, bias: Value | None, over: Sequence[Transposed]
) -> Value:
    batch, channels = x.shape[0], w.shape[1]
    rows = build.op("Reshape", x, shape=(batch, x.shape[1]))
    matrix = build.op("Reshape", w, shape=(w.shape[0], prod(w.shape[1:])))
    taps = build.op("Reshape", build.op("MatMul", rows, matrix), shape=(batch, *w.shape[1:]))
    y = _window(build, taps, [0] * len(over), over)
    if bias is None:
        return y
    return build.op("Add", y, build.op("Reshape", bias, shape=(channels, *(1 for _ in over))))


def _by_phases(
    build: Builder, x: Value, w: Value, bias: Value | None, over: Sequence[Transposed], group: int
) -> Value:
    """Result p = q s + r takes tap r + m s of input q - m: for each phase r a convolution over m."""
    taps = [-(-a.kernel // a.stride) for a in over]
    skipped = [min(a.before // a.stride, m - 1) for a, m in zip(over, taps, strict=True)]
    wanted = [-(-(a.before + a.outputs) // a.stride) for a in over]
    pads = [
        *(m - 1 - q for m, q in zip(taps, skipped, strict=True)),
        *(max(0, n - a.extent) for n, a in zip(wanted, over, strict=True)),
    ]
    phases = [a.stride for a in over]
    weights = _phase_weights(build, w, taps, over, group)
    channels = w.shape[1] * group
    if bias is not None:
        column = build.op("Reshape", bias, shape=(channels, 1))
        spread = build.op("Expand", column, shape=(channels, prod(phases)))
        bias = build.op("Reshape", spread, shape=(channels * prod(phases),))
    y = build.op("Conv", x, weights, bias, pads=tuple(pads), group=group, **_units(len(over)))
    rank, counts = len(over), y.shape[2:]
    split = build.op("Reshape", y, shape=(x.shape[0], channels, *phases, *counts))
    order = (0, 1, *chain.from_iterable((2 + rank + a, 2 + a) for a in range(rank)))
    mixed = build.op("Transpose", split, perm=order)
    sizes = [n * s for n, s in zip(counts, phases, strict=True)]
    shuffled = build.op("Reshape", mixed, shape=(x.shape[0], channels, *sizes))
    return _window(build, shuffled, [q * a.stride for q, a in zip(skipped, over, strict=True)], over)


def _phase_by_phase(
    build: Builder, x: Value, w: Value, bias: Value | None, over: Sequence[Transposed], group: int
) -> Value:
    """Results of one residue modulo the stride are a convolution of their own, with just the padding
    needed.
    """
    rank, channels = len(over), w.shape[1] * group
    taps = [-(-a.kernel // a.stride) for a in over]
    strides = [a.stride for a in over]
    packed = _phase_weights(build, w, taps, over, group)
    inputs = packed.shape[1]
    split = build.op("Reshape", packed, shape=(channels, prod(strides), inputs, *taps))
    counts = [-(-a.outputs // a.stride) for a in over]
    parts = []
    for residues in np.ndindex(*strides):
        first = [r + a.before for r, a in zip(residues, over, strict=True)]
        phase = int(np.ravel_multi_index([f % s for f, s in zip(first, strides, strict=True)], strides))
        before = [m - 1 - f // s for m, f, s in zip(taps, first, strides, strict=True)]
        after = [n - a.extent - b + m - 1 for n, a, b, m in zip(counts, over, before, taps, strict=True)]
        source = x
        if min(*before, *after) < 0:  # a convolution cannot crop
            crop = [min(0, n) for n in (*before, *after)]
            source = build.op("Pad", x, None, pads=(0, 0, *crop[:rank], 0, 0, *crop[rank:]))
        weights = build.op("Reshape", _plane(build, split, phase), shape=(channels, inputs, *taps))
        pads = tuple(max(0, n) for n in (*before, *after))
        parts.append(build.op("Conv", source, weights, bias, pads=pads, group=group, **_units(rank)))
    stacked = build.op("Concat", *parts, axis=1)
    split = build.op("Reshape", stacked, shape=(x.shape[0], *strides, channels, *counts))
    order = (0, 1 + rank, *chain.from_iterable((2 + rank + a, 1 + a) for a in range(rank)))
    sizes = [n * s for n, s in zip(counts, strides, strict=True)]
    mixed = build.op("Transpose", split, perm=order)
    shuffled = build.op("Reshape", mixed, shape=(x.shape[0], channels, *sizes))
    return _window(build, shuffled, [a.before for a in over], over)


def _plane(build: Builder, x: Value, index: int) -> Value:
    """x[:, index : index + 1]."""
    return build.op(
        "Slice",
        x,
        starts=tuple(index if axis == 1 else 0 for axis in range(x.type.rank)),
        ends=tuple(index + 1 if axis == 1 else n for axis, n in enumerate(x.shape)),
        axes=tuple(range(x.type.rank)),
        steps=(1,) * x.type.rank,
    )


def _phase_weights(
    build: Builder, w: Value, taps: Sequence[int], over: Sequence[Transposed], group: int
) -> Value:
    """[I, O/g, k...] as [O * phases, I/g, taps...]: taps of one phase together, mirrored."""
    rank, inputs, outputs = len(over), w.shape[0] // group, w.shape[1]
    missing = [m * a.stride - a.kernel for m, a in zip(taps, over, strict=True)]
    if any(missing):
        w = build.op("Pad", w, None, pads=(*(0 for _ in range(2 + rank)), 0, 0, *missing))
    pairs = chain.from_iterable((m, a.stride) for m, a in zip(taps, over, strict=True))
    split = build.op("Reshape", w, shape=(group, inputs, outputs, *pairs))
    mirrored = _mirrored(build, split, [3 + 2 * a for a in range(rank)])
    order = (0, 2, *(4 + 2 * a for a in range(rank)), 1, *(3 + 2 * a for a in range(rank)))
    moved = build.op("Transpose", mirrored, perm=order)
    phases = prod(a.stride for a in over)
    return build.op("Reshape", moved, shape=(group * outputs * phases, inputs, *taps))


def _by_zero_insertion(
    build: Builder, x: Value, w: Value, bias: Value | None, over: Sequence[Transposed], group: int
) -> Value:
    rank = len(over)
    apart = build.op("Reshape", x, shape=(*x.shape[:2], *chain.from_iterable((a.extent, 1) for a in over)))
    after = chain.from_iterable((0, a.stride - 1) for a in over)
    if any(a.stride > 1 for a in over):
        apart = build.op("Pad", apart, None, pads=(*(0 for _ in range(2 + 2 * rank)), 0, 0, *after))
    sizes = [a.extent * a.stride for a in over]
    spread = build.op("Reshape", apart, shape=(*x.shape[:2], *sizes))
    before = [(a.kernel - 1) * a.dilation - a.before for a in over]
    behind = [
        a.outputs - n - b + (a.kernel - 1) * a.dilation for a, n, b in zip(over, sizes, before, strict=True)
    ]
    if min(*before, *behind) < 0:  # a convolution cannot crop
        crop = [min(0, n) for n in (*before, *behind)]
        spread = build.op("Pad", spread, None, pads=(0, 0, *crop[:rank], 0, 0, *crop[rank:]))
    inputs, outputs = w.shape[0] // group, w.shape[1]
    split = build.op("Reshape", w, shape=(group, inputs, *w.shape[1:]))
    mirrored = _mirrored(build, split, [3 + a for a in range(rank)])
    moved = build.op("Transpose", mirrored, perm=(0, 2, 1, *(3 + a for a in range(rank))))
    weights = build.op("Reshape", moved, shape=(group * outputs, inputs, *w.shape[2:]))
    units = _units(rank) | {"dilations": tuple(a.dilation for a in over)}
    pads = tuple(max(0, n) for n in (*before, *behind))
    return build.op("Conv", spread, weights, bias, pads=pads, group=group, **units)


def _units(rank: int) -> dict[str, Any]:
    return {"strides": (1,) * rank, "dilations": (1,) * rank}


def _mirrored(build: Builder, x: Value, axes: Sequence[int]) -> Value:
    turned = [axis for axis in axes if x.shape[axis] > 1]
    if not turned:
        return x
    return build.op(
        "Slice",
        x,
        starts=tuple(n - 1 if axis in turned else 0 for axis, n in enumerate(x.shape)),
        ends=tuple(-1 if axis in turned else n for axis, n in enumerate(x.shape)),
        axes=tuple(range(x.type.rank)),
        steps=tuple(-1 if axis in turned else 1 for axis in range(x.type.rank)),
    )


def _window(build: Builder, full: Value, starts: Sequence[int], over: Sequence[Transposed]) -> Value:
    """The results that are asked for, out of `full`, whose first spatial elements stand at `starts`."""
    before = [s - a.before for s, a in zip(starts, over, strict=True)]
    after = [a.outputs - b - n for a, b, n in zip(over, before, full.shape[2:], strict=True)]
    if not any((*before, *after)):
        return full
    if max(*before, *after) <= 0:
        ends = [-b + a.outputs for b, a in zip(before, over, strict=True)]
        return build.op(
            "Slice",
            full,
            starts=(0, 0, *(-b for b in before)),
            ends=(*full.shape[:2], *ends),
            axes=tuple(range(full.type.rank)),
            steps=(1,) * full.type.rank,
        )
    return build.op("Pad", full, None, pads=(0, 0, *before, 0, 0, *after))


operator(
    "ConvTranspose",
    "transposed convolution of 1 to 3 spatial axes, with groups; weights are [I, O/group, k...]",
    [Operand("x", FLOATS), Operand("w", FLOATS), Operand("b", FLOATS, optional=True)],
    [Operand("y", FLOATS)],
    _infer,
    _evaluate,
    {
        "strides": Attr("ints"),
        "dilations": Attr("ints"),
        "pads": Attr("ints"),
        "output_padding": Attr("ints"),
        "group": Attr("int", 1),
    },
    lower=_lower,
)
