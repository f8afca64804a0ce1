"""Operators that pick or place elements: Slice, Pad, Gather."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import RunError, VerifyError
from tilewright.expr import (
    Expr,
    add,
    binary,
    const,
    logical_and,
    maximum,
    minimum,
    mod,
    mul,
    read,
    select,
    sub,
)
from tilewright.ops.declaration import operator, required, same_dtype
from tilewright.ops.gather_elements import limited
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Tensors = Sequence[Tensor | None]
Results = Sequence[TensorType]


def _ranges(shape: Sequence[int], attrs: Attrs) -> list[range]:
    """The indices that a Slice takes of each axis. Raises VerifyError when they leave the axis."""
    taken = [range(n) for n in shape]
    columns = [attrs[key] for key in ("starts", "ends", "axes", "steps")]
    if len(set(map(len, columns))) != 1:
        raise VerifyError("Slice: starts, ends, axes and steps have different lengths")
    for start, end, axis, step in zip(*columns, strict=True):
        if not 0 <= axis < len(shape) or step == 0:
            raise VerifyError(f"Slice: axis {axis} with step {step} on a tensor of rank {len(shape)}")
        taken[axis] = range(start, end, step)
        outside = [i for i in (taken[axis][:1], taken[axis][-1:]) if i and not 0 <= i[0] < shape[axis]]
        if outside:
            raise VerifyError(
                f"Slice: {start}:{end}:{step} takes index {outside[0][0]} of axis {axis}, "
                f"which has {shape[axis]} elements"
            )
    return taken


def _slice_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    return (TensorType(x.dtype, tuple(map(len, _ranges(x.shape, attrs)))),)


def _slice_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    return (x[tuple(_slice_of(r) for r in _ranges(x.shape, attrs))],)


def _slice_of(taken: range) -> slice:
    """A range as a slice; one that counts down to 0 ends with None."""
    if not len(taken):
        return slice(0, 0)
    return slice(taken.start, taken.stop if taken.stop >= 0 else None, taken.step)


def _slice_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x = required(tensors, 0)
    taken = _ranges(x.shape, attrs)

    def element(*i: Expr) -> Expr:
        pairs = zip(i, taken, strict=True)
        return read(x, [add(mul(index, const(r.step)), const(r.start)) for index, r in pairs])

    return (compute(types[0].shape, element, "slice"),)


operator(
    "Slice",
    "every step-th element from start to end (excluded; -1 ends below 0) of the listed axes",
    [Operand("x")],
    [Operand("y")],
    _slice_infer,
    _slice_evaluate,
    {key: Attr("ints", required=True) for key in ("starts", "ends", "axes", "steps")},
    Fusion.INJECTIVE,
    compute=_slice_compute,
)

_MODES = ("constant", "reflect", "edge", "wrap")


def _pads(rank: int, attrs: Attrs) -> list[tuple[int, int]]:
    pads = attrs["pads"]
    if len(pads) != 2 * rank:
        raise VerifyError(f"Pad: {len(pads)} pads for a tensor of rank {rank}, expected {2 * rank}")
    return list(zip(pads[:rank], pads[rank:], strict=True))


def _cropped(extent: int, before: int, after: int) -> int:
    """What negative pads leave of an axis; they crop before anything is added."""
    return extent + min(before, 0) + min(after, 0)


def _pad_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    same_dtype("Pad", types)
    x, value, mode = required(types, 0), types[1], attrs["mode"]
    if mode not in _MODES:
        raise VerifyError(f"Pad: mode '{mode}' is unknown, expected one of {', '.join(_MODES)}")
    if value is not None and value.size != 1:
        raise VerifyError(f"Pad: the value is one number, found shape {list(value.shape)}")
    shape = []
    for axis, (before, after) in enumerate(_pads(x.rank, attrs)):
        left = _cropped(x.shape[axis], before, after)
        if left < 0:
            raise VerifyError(
                f"Pad: pads {before} and {after} crop more than the {x.shape[axis]} of axis {axis}"
            )
        if left == 0 and mode != "constant" and max(before, after) > 0:
            raise VerifyError(f"Pad: axis {axis} has nothing left to repeat in mode '{mode}'")
        shape.append(left + max(before, 0) + max(after, 0))
    return (TensorType(x.dtype, tuple(shape)),)


def _pad_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, value = required(arrays, 0), arrays[1]
    pads = _pads(x.ndim, attrs)
    kept = tuple(
        slice(max(-b, 0), max(-b, 0) + _cropped(n, b, a)) for n, (b, a) in zip(x.shape, pads, strict=True)
    )
    added = [(max(before, 0), max(after, 0)) for before, after in pads]
    if not added:
        return (x,)
    if attrs["mode"] != "constant":
        return (np.pad(x[kept], added, mode=attrs["mode"]),)
    fill = x.dtype.type(0) if value is None else value.reshape(())[()]
    return (np.pad(x[kept], added, constant_values=fill),)


def _mirrored(position: Expr, extent: int, mode: str) -> Expr:
    """Where a position outside [0, extent) is read in the other modes."""
    if mode == "edge":
        return minimum(maximum(position, const(0)), const(extent - 1))
    if mode == "wrap":
        return mod(position, const(extent))
    if extent == 1:
        return const(0)
    period = 2 * (extent - 1)
    place = mod(position, const(period))
    return minimum(place, sub(const(period), place))


def _pad_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, value, mode = required(tensors, 0), tensors[1], attrs["mode"]
    pads = _pads(len(x.shape), attrs)

    def element(*i: Expr) -> Expr:
        guards, indices = [], []
        for index, extent, (before, after) in zip(i, x.shape, pads, strict=True):
            position = add(index, const(-max(before, 0)))
            left = _cropped(extent, before, after)
            if max(before, after) > 0 and mode != "constant":
                position = _mirrored(position, left, mode)
            if before > 0:
                guards.append(binary("ge", position, const(0)))
            if after > 0:
                guards.append(binary("lt", position, const(left)))
            indices.append(add(position, const(max(-before, 0))))
        inside = read(x, indices)
        if mode != "constant":
            return inside
        fill = const(0, x.dtype) if value is None else read(value, [0] * len(value.shape))
        return select(logical_and(*guards), inside, fill)

    return (compute(types[0].shape, element, "pad"),)


operator(
    "Pad",
    "elements added around the tensor; negative pads crop first",
    [Operand("x"), Operand("value", optional=True)],
    [Operand("y")],
    _pad_infer,
    _pad_evaluate,
    {"pads": Attr("ints", required=True), "mode": Attr("str", "constant")},
    Fusion.INJECTIVE,
    compute=_pad_compute,
)


def _gather_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, axis = required(types, 0), required(types, 1), attrs["axis"]
    if not 0 <= axis < x.rank:
        raise VerifyError(f"Gather: axis {axis} does not fit a tensor of rank {x.rank}")
    return (TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)


def _gather_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, indices, axis = required(arrays, 0), required(arrays, 1), attrs["axis"]
    extent = x.shape[axis]
    wrong = indices[(indices < -extent) | (indices >= extent)]
    if wrong.size:
        raise RunError(
            f"Gather: index {wrong.reshape(-1)[0]} is outside axis {axis}, which has {extent} elements"
        )
    return (np.take(x, indices, axis=axis),)


def _gather_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, indices, axis = required(tensors, 0), required(tensors, 1), attrs["axis"]
    extent = x.shape[axis]
    rank = len(indices.shape)

    def element(*i: Expr) -> Expr:
        # An index outside the axis must never become a read outside the tensor.
        safe = limited(read(indices, i[axis : axis + rank]), extent)
        return read(x, [*i[:axis], safe, *i[axis + rank :]])

    return (compute(types[0].shape, element, "gather"),)


operator(
    "Gather",
    "slices of x along an axis at the given indices; negative ones count from the end",
    [Operand("x"), Operand("indices", ("i32", "i64"))],
    [Operand("y")],
    _gather_infer,
    _gather_evaluate,
    {"axis": Attr("int", 0)},
    Fusion.INJECTIVE,
    compute=_gather_compute,
)
