"""Operators that only move elements: Reshape, Transpose, Concat, Split, Expand, Tile, DepthToSpace, Cast."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np

from tilewright.arithmetic import flush
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, call, cast, const, floordiv, mod, mul, read, select, sub
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import (
    broadcast_shape,
    operator,
    present,
    required,
    same_dtype,
)
from tilewright.ops.operator import Attr, Attrs, Builder, Fusion, Operand
from tilewright.ops.reading import broadcast_read
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Tensors = Sequence[Tensor | None]
Results = Sequence[TensorType]


def _reshape_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, shape = required(types, 0), tuple(attrs["shape"])
    if prod(shape) != x.size or any(n < 0 for n in shape):
        raise VerifyError(f"Reshape: shape {list(x.shape)} has {x.size} elements, {list(shape)} has not")
    return (TensorType(x.dtype, shape),)


def _groups(inner: Sequence[int], outer: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes of two shapes that hold equally many elements, extents of 1 left out."""
    left = [axis for axis, n in enumerate(inner) if n != 1]
    right = [axis for axis, n in enumerate(outer) if n != 1]
    groups = []
    while left:
        a, b = [left.pop(0)], [right.pop(0)]
        while prod(inner[i] for i in a) != prod(outer[i] for i in b):
            if prod(inner[i] for i in a) < prod(outer[i] for i in b):
                a.append(left.pop(0))
            else:
                b.append(right.pop(0))
        groups.append((a, b))
    return groups


def reshape_index(source: Sequence[int], target: Sequence[int], i: Sequence[Expr]) -> list[Expr]:
    """Where element i of shape `target` stands in shape `source`; both hold the same elements in order."""
    indices: list[Expr] = [const(0) for _ in source]
    if prod(source) == 0:
        return indices
    for inner, outer in _groups(source, target):
        flat: Expr = const(0)
        for axis in outer:
            flat = add(mul(flat, const(target[axis])), i[axis])
        below = prod(source[axis] for axis in inner)
        for position, axis in enumerate(inner):
            below //= source[axis]
            index = floordiv(flat, const(below))
            indices[axis] = index if position == 0 else mod(index, const(source[axis]))
    return indices


def _reshape_compute(tensors: Tensors, _: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, shape = required(tensors, 0), types[0].shape
    return (compute(shape, lambda *i: read(x, reshape_index(x.shape, shape, i)), "reshape"),)


operator(
    "Reshape",
    "the same elements, in order, in another shape",
    [Operand("x")],
    [Operand("y")],
    _reshape_infer,
    lambda arrays, attrs: (required(arrays, 0).reshape(tuple(attrs["shape"])),),
    {"shape": Attr("ints", required=True)},
    Fusion.INJECTIVE,
    compute=_reshape_compute,
)


def _transpose_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, perm = required(types, 0), attrs["perm"]
    if sorted(perm) != list(range(x.rank)):
        raise VerifyError(f"Transpose: {list(perm)} is no order of the axes of rank {x.rank}")
    return (TensorType(x.dtype, tuple(x.shape[axis] for axis in perm)),)


def _transpose_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, perm = required(tensors, 0), attrs["perm"]
    where = [list(perm).index(axis) for axis in range(len(perm))]
    return (compute(types[0].shape, lambda *i: read(x, [i[p] for p in where]), "transpose"),)


operator(
    "Transpose",
    "axes reordered: axis i of the result is axis perm[i] of the operand",
    [Operand("x")],
    [Operand("y")],
    _transpose_infer,
    lambda arrays, attrs: (required(arrays, 0).transpose(tuple(attrs["perm"])),),
    {"perm": Attr("ints", required=True)},
    Fusion.INJECTIVE,
    compute=_transpose_compute,
)


def _concat_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    parts, axis = present(types), attrs["axis"]
    same_dtype("Concat", parts)
    first = parts[0]
    if not 0 <= axis < first.rank:
        raise VerifyError(f"Concat: axis {axis} does not fit a tensor of rank {first.rank}")
    for part in parts[1:]:
        if (*part.shape[:axis], *part.shape[axis + 1 :]) != (*first.shape[:axis], *first.shape[axis + 1 :]):
            raise VerifyError(
                f"Concat: shapes {list(first.shape)} and {list(part.shape)} differ beside axis {axis}"
            )
    total = sum(part.shape[axis] for part in parts)
    return (TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])),)


def _concat_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    axis = attrs["axis"]
    parts = [t for t in present(tensors) if t.shape[axis]] or present(tensors)[:1]
    starts = [0, *accumulate(t.shape[axis] for t in parts)]

    def element(*i: Expr) -> Expr:
        def within(number: int) -> Expr:
            moved = [*i[:axis], sub(i[axis], const(starts[number])), *i[axis + 1 :]]
            return read(parts[number], moved)

        value = within(len(parts) - 1)
        for number in reversed(range(len(parts) - 1)):
            value = select(binary("lt", i[axis], const(starts[number + 1])), within(number), value)
        return value

    return (compute(types[0].shape, element, "concat"),)


operator(
    "Concat",
    "operands one after the other along an axis",
    [Operand("x", variadic=True)],
    [Operand("y")],
    _concat_infer,
    lambda arrays, attrs: (np.concatenate(present(arrays), axis=attrs["axis"]),),
    {"axis": Attr("int", required=True)},
    Fusion.INJECTIVE,
    compute=_concat_compute,
)


def _split_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, axis, sizes = required(types, 0), attrs["axis"], attrs["sizes"]
    if not 0 <= axis < x.rank:
        raise VerifyError(f"Split: axis {axis} does not fit a tensor of rank {x.rank}")
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise VerifyError(f"Split: sizes {list(sizes)} do not add up to the {x.shape[axis]} of axis {axis}")
    return tuple(TensorType(x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes)


def _split_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    cuts = list(accumulate(attrs["sizes"]))[:-1]
    return tuple(np.split(required(arrays, 0), cuts, axis=attrs["axis"]))


def _split_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, axis = required(tensors, 0), attrs["axis"]
    starts = [0, *accumulate(attrs["sizes"])]

    def part(number: int) -> Tensor:
        def element(*i: Expr) -> Expr:
            return read(x, [*i[:axis], add(i[axis], const(starts[number])), *i[axis + 1 :]])

        return compute(types[number].shape, element, f"split_{number}")

    return tuple(part(number) for number in range(len(types)))


operator(
    "Split",
    "consecutive parts of the given sizes along an axis",
    [Operand("x")],
    [Operand("y", variadic=True)],
    _split_infer,
    _split_evaluate,
    {"axis": Attr("int", required=True), "sizes": Attr("ints", required=True)},
    Fusion.INJECTIVE,
    compute=_split_compute,
)


def _expand_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    return (TensorType(x.dtype, broadcast_shape("Expand", x.shape, tuple(attrs["shape"]))),)


def _expand_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    return (np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(attrs["shape"]))),)


def _expand_compute(tensors: Tensors, _: Attrs, types: Results) -> tuple[Tensor, ...]:
    x = required(tensors, 0)
    return (compute(types[0].shape, lambda *i: broadcast_read(x, i), "expand"),)


operator(
    "Expand",
    "the operand broadcast against a shape",
    [Operand("x")],
    [Operand("y")],
    _expand_infer,
    _expand_evaluate,
    {"shape": Attr("ints", required=True)},
    Fusion.INJECTIVE,
    compute=_expand_compute,
)


def _tile_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, repeats = required(types, 0), attrs["repeats"]
    if len(repeats) != x.rank or min(repeats, default=0) < 0:
        raise VerifyError(f"Tile: repeats {list(repeats)} do not fit a tensor of rank {x.rank}")
    return (TensorType(x.dtype, tuple(n * r for n, r in zip(x.shape, repeats, strict=True))),)


def _tile_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x = required(tensors, 0)

    def element(*i: Expr) -> Expr:
        repeated = zip(i, x.shape, attrs["repeats"], strict=True)
        return read(x, [mod(index, const(n)) if r > 1 else index for index, n, r in repeated])

    return (compute(types[0].shape, element, "tile"),)


operator(
    "Tile",
    "the operand repeated along each axis",
    [Operand("x")],
    [Operand("y")],
    _tile_infer,
    lambda arrays, attrs: (np.tile(required(arrays, 0), tuple(attrs["repeats"])),),
    {"repeats": Attr("ints", required=True)},
    Fusion.INJECTIVE,
    compute=_tile_compute,
)


def _depth_orders(shape: Sequence[int], attrs: Attrs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The six axes that the channels split into, and the order that interleaves them."""
    n, c, h, w = shape
    block = attrs["blocksize"]
    if attrs["mode"] == "DCR":
        return (n, block, block, c // block**2, h, w), (0, 3, 4, 1, 5, 2)
    return (n, c // block**2, block, block, h, w), (0, 1, 4, 2, 5, 3)


def _depth_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, block = required(types, 0), attrs["blocksize"]
    if attrs["mode"] not in ("DCR", "CRD"):
        raise VerifyError(f"DepthToSpace: mode '{attrs['mode']}' is unknown, expected DCR or CRD")
    if x.rank != 4 or block < 1 or x.shape[1] % block**2:
        raise VerifyError(
            f"DepthToSpace: shape {list(x.shape)} has no channels in blocks of {block} x {block}"
        )
    n, c, h, w = x.shape
    return (TensorType(x.dtype, (n, c // block**2, h * block, w * block)),)


def _depth_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    n, c, h, w = x.shape
    block = attrs["blocksize"]
    split, order = _depth_orders(x.shape, attrs)
    return (x.reshape(split).transpose(order).reshape(n, c // block**2, h * block, w * block),)


def _depth_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    x = node.operand(0)
    split, order = _depth_orders(x.shape, {"mode": "DCR", **node.attrs})
    moved = build.op("Transpose", build.op("Reshape", x, shape=split), perm=order)
    return (build.op("Reshape", moved, shape=node.output.shape),)


operator(
    "DepthToSpace",
    "blocks of channels become blocks of pixels (modes DCR and CRD)",
    [Operand("x")],
    [Operand("y")],
    _depth_infer,
    _depth_evaluate,
    {"blocksize": Attr("int", required=True), "mode": Attr("str", "DCR")},
    lower=_depth_lower,
)


def _cast_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    if attrs["flush"] and not x.dtype.is_float:
        raise VerifyError(f"Cast: flush is for floats, found {x.dtype}")
    return (TensorType(attrs["to"], x.shape),)


def _cast_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    with np.errstate(all="ignore"):
        return (attrs["to"].cast(flush(x) if attrs["flush"] else x),)


def _cast_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x = required(tensors, 0)

    def result(*i: Expr) -> Expr:
        return cast(call("flush", read(x, i)) if attrs["flush"] else read(x, i), attrs["to"])

    return (compute(types[0].shape, result, "cast"),)


operator(
    "Cast",
    "another element type: to integers truncates, to bool compares with zero, narrower floats round to even;"
    " with flush, denormal numbers of float32 are zeros first",
    [Operand("x")],
    [Operand("y")],
    _cast_infer,
    _cast_evaluate,
    {"to": Attr("dtype", required=True), "flush": Attr("bool", False)},
    Fusion.ELEMENTWISE,
    compute=_cast_compute,
)
