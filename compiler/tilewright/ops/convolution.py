"""Convolution."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewright.dtypes import DType
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, cast, const, floordiv, logical_and, mul, read, select
from tilewright.ops.declaration import FLOATS, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.reading import BYTES, WIDE, factor, product_dtype, widened
from tilewright.ops.windows import Window, pad_for, tap_view, windows
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

_SUMS = (*FLOATS, "i32")
_FACTORS = (*_SUMS, *BYTES)
WORKING_BYTES = 32 << 20  # of the matrix of patches that the NumPy evaluation builds at once


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, w, bias = required(types, 0), required(types, 1), types[2]
    dtype = product_dtype("Conv", x, w, bias, attrs)
    if attrs["pad_value"] and not x.dtype.is_integer:
        raise VerifyError(f"Conv: padding with {attrs['pad_value']} is for integers, found {x.dtype}")
    if attrs["pad_value"] and x.dtype.cast(np.asarray(attrs["pad_value"])) != attrs["pad_value"]:
        raise VerifyError(f"Conv: {x.dtype} does not hold the padding {attrs['pad_value']}")
    group = attrs["group"]
    if x.rank < 3 or w.rank != x.rank:
        raise VerifyError(
            f"Conv: input has rank {x.rank} and weights rank {w.rank}, expected one rank from 3 to 5"
        )
    if group < 1 or w.shape[1] * group != x.shape[1]:
        groups = f" in each of {group} groups" if group != 1 else ""
        raise VerifyError(f"Conv: weights have {w.shape[1]} input channels{groups}, input has {x.shape[1]}")
    if w.shape[0] % group:
        raise VerifyError(f"Conv: {w.shape[0]} output channels do not divide into {group} groups")
    if bias is not None and bias.shape != (w.shape[0],):
        raise VerifyError(f"Conv: bias has shape {list(bias.shape)}, expected [{w.shape[0]}]")
    over = windows("Conv", x.shape, w.shape[2:], attrs)
    return (TensorType(dtype, (x.shape[0], w.shape[0], *(a.outputs for a in over))),)


def convolve(
    x: np.ndarray, w: np.ndarray, over: Sequence[Window], group: int, pad_value: int = 0
) -> np.ndarray:
    """The convolution of x [N, C, ...] with w [O, C/group, ...]; sums of floats in float64, rounded once."""
    work = np.dtype(np.float64) if wide(x.dtype).kind == "f" else x.dtype
    padded = pad_for(x.astype(work, copy=False), over, pad_value)
    weights = w.astype(work, copy=False)
    by_taps = w.shape[1] == 1 and group > 1
    result = _by_taps(padded, weights, over) if by_taps else _by_patches(padded, weights, over, group)
    return result.astype(x.dtype, copy=False)


def _by_taps(padded: np.ndarray, w: np.ndarray, over: Sequence[Window]) -> np.ndarray:
    """Depth-wise: one multiply-add of whole planes for each tap."""
    batch, channels = padded.shape[:2]
    outputs = tuple(a.outputs for a in over)
    multiplier = w.shape[0] // channels
    result = np.zeros((batch, channels, multiplier, *outputs), padded.dtype)
    for tap in np.ndindex(*w.shape[2:]):
        weight = w[(slice(None), 0, *tap)].reshape(channels, multiplier, *(1 for _ in over))
        result += tap_view(padded, over, tap)[:, :, None] * weight
    return result.reshape(batch, w.shape[0], *outputs)


def _by_patches(padded: np.ndarray, w: np.ndarray, over: Sequence[Window], group: int) -> np.ndarray:
    """One matrix product of the weights with the patches of a band of output rows."""
    batch, channels = padded.shape[0], w.shape[1]
    outputs = tuple(a.outputs for a in over)
    out_channels = w.shape[0] // group
    matrix = np.ascontiguousarray(w.reshape(group, out_channels, prod(w.shape[1:])))
    result = np.empty((batch, group, out_channels, *outputs), padded.dtype)
    row_bytes = max(1, matrix.shape[2] * prod(outputs[1:]) * padded.itemsize)
    band = max(1, WORKING_BYTES // row_bytes)
    for n, g in np.ndindex(batch, group):
        patches = _patches(padded[n, g * channels : (g + 1) * channels], over)
        for start in range(0, outputs[0], band):
            taps = len(over)
            part = patches[(slice(None),) * (1 + taps) + (slice(start, start + band),)]
            product = matrix[g] @ part.reshape(matrix.shape[2], prod(part.shape[1 + taps :]))
            result[n, g, :, start : start + band] = product.reshape(out_channels, *part.shape[1 + taps :])
    return result.reshape(batch, group * out_channels, *outputs)


def _patches(image: np.ndarray, over: Sequence[Window]) -> np.ndarray:
    """A view [C, taps..., outputs...] of image [C, ...]."""
    shape = (image.shape[0], *(a.kernel for a in over), *(a.outputs for a in over))
    steps = image.strides[1:]
    taps = (s * a.dilation for s, a in zip(steps, over, strict=True))
    moves = (s * a.stride for s, a in zip(steps, over, strict=True))
    return as_strided(image, shape, (image.strides[0], *taps, *moves), writeable=False)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, w = (widened(required(arrays, position), attrs) for position in (0, 1))
    bias = arrays[2]
    over = windows("Conv", x.shape, w.shape[2:], attrs)
    result = convolve(x, w, over, attrs["group"], attrs["pad_value"])
    if bias is not None:
        result = result + bias.reshape(-1, *(1 for _ in over))
    return (result,)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """sum over (taps, input channel); padding is a select, unless the input's halo already holds it."""
    x, w, bias = required(tensors, 0), required(tensors, 1), tensors[2]
    over = windows("Conv", x.shape, w.shape[2:], attrs)
    channels, out_channels = w.shape[1], w.shape[0] // attrs["group"]
    taps = [reduce_axis(a.kernel, f"conv.k{i}") for i, a in enumerate(over)]
    channel = reduce_axis(channels, "conv.ic")

    def element(n: Expr, o: Expr, *outputs: Expr) -> Expr:
        first = mul(floordiv(o, const(out_channels)), const(channels))
        source = first if channels == 1 else add(first, channel.var)
        if attrs["group"] == 1:
            source = channel.var
        positions = [a.position(p, t.var) for a, p, t in zip(over, outputs, taps, strict=True)]
        value = read(x, [n, source, *positions])
        if not attrs["padded_by_halo"]:
            guards = [g for a, p in zip(over, positions, strict=True) for g in a.guards(p)]
            value = select(logical_and(*guards), value, const(attrs["pad_value"], x.dtype))
        weight = read(w, [o, channel.var, *(t.var for t in taps)])
        return sum_over(mul(factor(value), factor(weight)), *taps, channel)

    result = compute(types[0].shape, element, "conv")
    return (finished(result, bias, types[0].dtype, "conv"),)


def finished(total: Tensor, bias: Tensor | None, dtype: DType, name: str) -> Tensor:
    """Sums of products with the bias of axis 1 added, rounded to the result's type."""
    if bias is None and total.dtype == dtype:
        return total

    def element(*i: Expr) -> Expr:
        value = read(total, i)
        if bias is not None:
            value = add(value, cast(read(bias, [i[1]]), total.dtype))
        return cast(value, dtype)

    return compute(total.shape, element, f"{name}_out")


operator(
    "Conv",
    "convolution (cross-correlation) of 1 to 3 spatial axes, with groups; i32 sums are exact",
    [Operand("x", _FACTORS), Operand("w", _FACTORS), Operand("b", _SUMS, optional=True)],
    [Operand("y", _SUMS)],
    _infer,
    _evaluate,
    {
        "strides": Attr("ints"),
        "dilations": Attr("ints"),
        "pads": Attr("ints"),
        "group": Attr("int", 1),
        "padded_by_halo": Attr("bool", False),
        "pad_value": Attr("int", 0),
        "wide": WIDE,
    },
    Fusion.COMPLEX,
    compute=_compute,
)
