"""Deformable convolution: patches read at moved positions, then a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from tilewright.dtypes import I32, I64, DType
from tilewright.errors import VerifyError
from tilewright.expr import (
    Expr,
    add,
    binary,
    call,
    cast,
    const,
    floordiv,
    logical_and,
    maximum,
    minimum,
    mul,
    read,
    select,
    sub,
)
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, attributes, operator, required, same_dtype, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Fusion, Operand
from tilewright.ops.reading import accumulator
from tilewright.ops.windows import Window, windows
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

_WINDOW_ATTRS = {"strides": Attr("ints"), "dilations": Attr("ints"), "pads": Attr("ints")}


def _check_moves(
    name: str, x: TensorType, offset: TensorType, mask: TensorType | None, over: Sequence[Window], groups: int
) -> None:
    """Offsets are [N, groups * taps * axes, outputs...], the mask [N, groups * taps, outputs...]."""
    taps, outputs = prod(a.kernel for a in over), tuple(a.outputs for a in over)
    if groups < 1 or x.shape[1] % groups:
        raise VerifyError(f"{name}: {x.shape[1]} channels do not divide into {groups} offset groups")
    wanted = (x.shape[0], groups * taps * len(over), *outputs)
    if offset.shape != wanted:
        raise VerifyError(f"{name}: offset has shape {list(offset.shape)}, expected {list(wanted)}")
    wanted = (x.shape[0], groups * taps, *outputs)
    if mask is not None and mask.shape != wanted:
        raise VerifyError(f"{name}: mask has shape {list(mask.shape)}, expected {list(wanted)}")


def _patches_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    same_dtype("DeformedPatches", types)
    x, offset, mask = required(types, 0), required(types, 1), types[2]
    over = windows("DeformedPatches", x.shape, attrs["kernel_shape"], attrs)
    _check_moves("DeformedPatches", x, offset, mask, over, attrs["offset_group"])
    taps = tuple(a.kernel for a in over)
    return (TensorType(accumulator(x.dtype), (*x.shape[:2], *taps, *(a.outputs for a in over))),)


def _patches_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, offset, mask = required(arrays, 0), required(arrays, 1), arrays[2]
    over = windows("DeformedPatches", x.shape, attrs["kernel_shape"], attrs)
    return (moved_patches(x, offset, mask, over, attrs["offset_group"]),)


def moved_patches(
    x: np.ndarray, offset: np.ndarray, mask: np.ndarray | None, over: Sequence[Window], groups: int
) -> np.ndarray:
    """x [N, C, ...] interpolated at moved taps: [N, C, taps..., outputs...]; outside lie zeros."""
    work, rank = wide(x.dtype), len(over)
    kernel, outputs = tuple(a.kernel for a in over), tuple(a.outputs for a in over)
    batch, channels = x.shape[:2]
    moves = offset.astype(work).reshape(batch, groups, *kernel, rank, *outputs)
    firsts, fractions = [], []
    for axis, a in enumerate(over):
        grid = np.arange(a.kernel)[:, None] * a.dilation + np.arange(a.outputs) * a.stride - a.before
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = grid.shape
        p = moves[(slice(None),) * (2 + rank) + (axis,)] + grid.reshape(shape).astype(work)
        p = np.clip(p, -8, a.extent + 8)
        firsts.append(np.floor(p))
        fractions.append(p - firsts[-1])
    planes = x.astype(work, copy=False).reshape(batch, groups, channels // groups, *x.shape[2:])
    planes = np.moveaxis(planes, 2, -1)
    where = np.ogrid[tuple(slice(n) for n in (batch, groups))]
    lead = [index.reshape(*index.shape, *(1 for _ in range(2 * rank))) for index in where]
    total = np.zeros((*firsts[0].shape, channels // groups), work)
    for corner in product((0, 1), repeat=rank):
        indices, inside, weight = [], np.ones((), bool), np.ones((), work)
        for a, step, first, fraction in zip(over, corner, firsts, fractions, strict=True):
            with np.errstate(invalid="ignore"):
                place = first.astype(np.int64) + step
            inside = inside & (place >= 0) & (place < a.extent)
            indices.append(np.clip(place, 0, a.extent - 1))
            weight = weight * (fraction if step else 1 - fraction)
        part = np.where(inside[..., None], planes[(*lead, *indices)], work.type(0))
        total += part * weight[..., None]
    if mask is not None:
        total *= mask.astype(work).reshape(batch, groups, *kernel, *outputs)[..., None]
    return np.moveaxis(total, -1, 2).reshape(batch, channels, *kernel, *outputs)


def _patches_compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """The channels of a group share the stages of corners and weights; the last stage reads and adds."""
    x, offset, mask = required(tensors, 0), required(tensors, 1), tensors[2]
    over = windows("DeformedPatches", x.shape, attrs["kernel_shape"], attrs)
    rank, work, groups = len(over), types[0].dtype, attrs["offset_group"]
    found = [_corners(offset, mask if axis == 0 else None, axis, over, groups, work) for axis in range(rank)]
    corners = [reduce_axis(2, f"deform.c{axis}") for axis in range(rank)]
    channels = x.shape[1] // groups

    def element(*i: Expr) -> Expr:
        where = [[i[0], floordiv(i[1], const(channels)), corner.var, *i[2:]] for corner in corners]
        places = [read(place, w) for (place, _), w in zip(found, where, strict=True)]
        inside = logical_and(*(binary("ge", place, const(0, I32)) for place in places))
        pixel = read(x, [i[0], i[1], *(cast(place, I64) for place in places)])
        value = cast(select(inside, pixel, const(0, x.dtype)), work)
        for (_, share), w in zip(found, where, strict=True):
            value = mul(value, read(share, w))
        return sum_over(value, *corners)

    return (compute(types[0].shape, element, "deform"),)


def _corners(
    offset: Tensor, mask: Tensor | None, axis: int, over: Sequence[Window], groups: int, work: DType
) -> tuple[Tensor, Tensor]:
    """The two pixels around every moved tap on one axis, i32[N, groups, 2, taps..., outputs...], -1 outside.

    And their weights, times the mask when there is one.
    """
    a, rank = over[axis], len(over)
    kernel, outputs = tuple(w.kernel for w in over), tuple(w.outputs for w in over)

    def row(group: Expr, taps: Sequence[Expr]) -> Expr:
        """The tap's number within all groups."""
        for w, tap in zip(over, taps, strict=True):
            group = add(mul(group, const(w.kernel)), tap)
        return group

    def at(n: Expr, group: Expr, *i: Expr) -> Expr:
        taps, output = i[:rank], i[rank:]
        move = read(offset, [n, add(mul(row(group, taps), const(rank)), const(axis)), *output])
        p = cast(move, work) + cast(a.position(output[axis], taps[axis]), work)
        # Beyond this no corner is inside; the limit keeps the conversion to an integer defined.
        return minimum(maximum(p, const(-8, work)), const(a.extent + 8, work))

    batch = offset.shape[0]
    position = compute((batch, groups, *kernel, *outputs), at, f"deform_at{axis}")

    def place(n: Expr, group: Expr, corner: Expr, *i: Expr) -> Expr:
        pixel = add(cast(call("floor", read(position, [n, group, *i])), I64), corner)
        inside = logical_and(binary("ge", pixel, const(0)), binary("lt", pixel, const(a.extent)))
        return cast(select(inside, pixel, const(-1)), I32)

    def weight(n: Expr, group: Expr, corner: Expr, *i: Expr) -> Expr:
        p = read(position, [n, group, *i])
        fraction = sub(p, call("floor", p))
        share = select(binary("eq", corner, const(0)), const(1, work) - fraction, fraction)
        if mask is None:
            return share
        return mul(share, cast(read(mask, [n, row(group, i[:rank]), *i[rank:]]), work))

    shape = (batch, groups, 2, *kernel, *outputs)
    return compute(shape, place, f"deform_place{axis}"), compute(shape, weight, f"deform_weight{axis}")


operator(
    "DeformedPatches",
    "what the taps of every window read when each is moved by an offset, linearly interpolated, times a mask",
    [Operand("x", FLOATS), Operand("offset", FLOATS), Operand("mask", FLOATS, optional=True)],
    [Operand("y", ("f32", "f64"))],
    _patches_infer,
    _patches_evaluate,
    {"kernel_shape": Attr("ints", required=True), "offset_group": Attr("int", 1), **_WINDOW_ATTRS},
    Fusion.OPAQUE,
    compute=_patches_compute,
)


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    same_dtype("DeformConv", types)
    x, w, offset = (required(types, i) for i in range(3))
    bias, mask = types[3], types[4]
    group = attrs["group"]
    if x.rank < 3 or w.rank != x.rank:
        raise VerifyError(f"DeformConv: input has rank {x.rank} and weights rank {w.rank}, expected one rank")
    if group < 1 or w.shape[1] * group != x.shape[1] or w.shape[0] % group:
        raise VerifyError(
            f"DeformConv: weights {list(w.shape)} do not fit {x.shape[1]} channels, {group} groups"
        )
    if bias is not None and bias.shape != (w.shape[0],):
        raise VerifyError(f"DeformConv: bias has shape {list(bias.shape)}, expected [{w.shape[0]}]")
    over = windows("DeformConv", x.shape, w.shape[2:], attrs)
    _check_moves("DeformConv", x, offset, mask, over, attrs["offset_group"])
    return (TensorType(x.dtype, (x.shape[0], w.shape[0], *(a.outputs for a in over))),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, w, offset = (required(arrays, i) for i in range(3))
    bias, mask = arrays[3], arrays[4]
    over = windows("DeformConv", x.shape, w.shape[2:], attrs)
    patches = moved_patches(x, offset, mask, over, attrs["offset_group"])
    group, outputs = attrs["group"], tuple(a.outputs for a in over)
    rows = prod(w.shape[1:])
    columns = patches.reshape(x.shape[0], group, rows, prod(outputs))
    matrix = w.astype(patches.dtype).reshape(group, w.shape[0] // group, rows)
    y = np.matmul(matrix, columns).reshape(x.shape[0], w.shape[0], *outputs)
    if bias is not None:
        y = y + bias.astype(patches.dtype).reshape(-1, *(1 for _ in over))
    return (y.astype(x.dtype),)


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    x, w, offset = (node.operand(i) for i in range(3))
    bias, mask = ([*node.inputs, None, None][i] for i in (3, 4))
    attrs = attributes(node)
    outputs, group = node.output.shape[2:], attrs["group"]
    shared = {key: attrs[key] for key in (*_WINDOW_ATTRS, "offset_group")}
    patches = build.op("DeformedPatches", x, offset, mask, kernel_shape=w.shape[2:], **shared)
    work = patches.dtype
    rows = prod(w.shape[1:])
    columns = build.op("Reshape", patches, shape=(x.shape[0], group, rows, prod(outputs)))
    matrix = build.op("Reshape", w, shape=(group, w.shape[0] // group, rows))
    y = build.op("MatMul", matrix if w.dtype == work else build.op("Cast", matrix, to=work), columns)
    y = build.op("Reshape", y, shape=node.output.shape)
    if bias is not None:
        column = build.op("Reshape", bias, shape=(w.shape[0], *(1 for _ in outputs)))
        y = build.op("Add", y, column if w.dtype == work else build.op("Cast", column, to=work))
    return (y if x.dtype == work else build.op("Cast", y, to=x.dtype),)


operator(
    "DeformConv",
    "convolution whose taps are moved by offsets and scaled by a mask, for each group of channels",
    [
        Operand("x", FLOATS),
        Operand("w", FLOATS),
        Operand("offset", FLOATS),
        Operand("b", FLOATS, optional=True),
        Operand("mask", FLOATS, optional=True),
    ],
    [Operand("y", FLOATS)],
    _infer,
    _evaluate,
    {"group": Attr("int", 1), "offset_group": Attr("int", 1), **_WINDOW_ATTRS},
    lower=_lower,
)
