"""Normalisations over some axes of a tensor: chains of stages over rows that stay whole.

A row is all elements that share their statistics. Variances are sums of squared distances from the mean, so
that a large mean costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.dtypes import F64, DType
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, call, cast, const, floordiv, mul, read, select, sub
from tilewright.ops.declaration import FLOATS, broadcast_shape, operator, required, same_dtype, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.reading import accumulated, accumulator, broadcast_read
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
Tensors = Sequence[Tensor | None]
Results = Sequence[TensorType]
_EPSILON = Attr("float", 1e-5)


@dataclass(frozen=True)
class Rows:
    """How a tensor falls into rows.

    shape: of the tensor of rows; extents: of a row; element: (row, place in the row) -> index in the tensor.
    """

    shape: tuple[int, ...]
    extents: tuple[int, ...]
    element: Callable[[Sequence[Expr], Sequence[Expr]], list[Expr]]

    def total(self, x: Tensor, name: str, term: Callable[[Expr, Sequence[Expr]], Expr]) -> Tensor:
        """The sum over every row of term(element, row)."""
        axes = [reduce_axis(n, f"{name}.r{i}") for i, n in enumerate(self.extents)]

        def body(*row: Expr) -> Expr:
            value = accumulated(read(x, self.element(row, [a.var for a in axes])))
            return sum_over(term(value, row), *axes) if axes else term(value, row)

        return compute(self.shape, body, name)

    def mean(self, x: Tensor, name: str, term: Callable[[Expr, Sequence[Expr]], Expr]) -> Tensor:
        """The mean over every row of term(element, row)."""
        total = self.total(x, f"{name}_sum", term)
        count = float(prod(self.extents))
        return compute(self.shape, lambda *row: read(total, row) / count, name)


def _trailing(shape: Sequence[int], axis: int) -> Rows:
    """Rows of all axes from `axis` on."""
    return Rows(tuple(shape[:axis]), tuple(shape[axis:]), lambda row, place: [*row, *place])


def _over(shape: Sequence[int], axes: Sequence[int]) -> Rows:
    """Rows of the given axes."""

    def element(row: Sequence[Expr], place: Sequence[Expr]) -> list[Expr]:
        rows, places = iter(row), iter(place)
        return [next(places) if axis in axes else next(rows) for axis in range(len(shape))]

    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    return Rows(kept, tuple(n for axis, n in enumerate(shape) if axis in axes), element)


def _groups(shape: Sequence[int], groups: int) -> Rows:
    """Rows of the channels of one group in one sample, and all that follows."""
    each = shape[1] // groups
    return Rows(
        (shape[0], groups),
        (each, *shape[2:]),
        lambda row, place: [row[0], add(mul(row[1], const(each)), place[0]), *place[1:]],
    )


def _moments(rows: Rows, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Mean and variance of every row."""
    mean = rows.mean(x, f"{name}_mean", lambda value, _: value)

    def squared(value: Expr, row: Sequence[Expr]) -> Expr:
        centred = sub(value, read(mean, row))
        return mul(centred, centred)

    return mean, rows.mean(x, f"{name}_var", squared)


def _numeric_moments(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    mean = x.mean(axis=axes, keepdims=True)
    return mean, np.square(x - mean).mean(axis=axes, keepdims=True)


def _inverse_root(variance: Tensor, epsilon: float, name: str) -> Tensor:
    def body(*row: Expr) -> Expr:
        value = read(variance, row)
        return const(1, value.dtype) / call("sqrt", value + epsilon)

    return compute(variance.shape, body, name)


def _scaled(value: Expr, scale: Tensor | None, bias: Tensor | None, i: Sequence[Expr], to: DType) -> Expr:
    """value times the scale plus the bias, both broadcast to index i, rounded once."""
    if scale is not None:
        value = mul(value, cast(broadcast_read(scale, i), value.dtype))
    if bias is not None:
        value = add(value, cast(broadcast_read(bias, i), value.dtype))
    return cast(value, to)


def _check_affine(name: str, x: TensorType, parts: Mapping[str, TensorType | None]) -> None:
    for what, type in parts.items():
        if type is None:
            continue
        if type.rank > x.rank or broadcast_shape(name, type.shape, x.shape) != x.shape:
            raise VerifyError(
                f"{name}: {what} of shape {list(type.shape)} does not broadcast to {list(x.shape)}"
            )


def _check_axis(name: str, x: TensorType, axis: int) -> None:
    if not 0 <= axis < x.rank:
        raise VerifyError(f"{name}: axis {axis} does not fit a tensor of rank {x.rank}")


# LayerNormalization


def _layer_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    same_dtype("LayerNormalization", types)
    x, axis = required(types, 0), attrs["axis"]
    _check_axis("LayerNormalization", x, axis)
    _check_affine("LayerNormalization", x, {"scale": types[1], "bias": types[2]})
    y = TensorType(x.dtype, x.shape)
    if not attrs["statistics"]:
        return (y,)
    row = TensorType(accumulator(x.dtype), (*x.shape[:axis], *(1 for _ in x.shape[axis:])))
    return (y, row, row)


def _layer_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    work = x.astype(wide(x.dtype), copy=False)
    with np.errstate(all="ignore"):
        mean, variance = _numeric_moments(work, tuple(range(attrs["axis"], x.ndim)))
        inverse = 1 / np.sqrt(variance + work.dtype.type(attrs["epsilon"]))
        y = (work - mean) * inverse
        for step, part in ((np.multiply, arrays[1]), (np.add, arrays[2])):
            y = y if part is None else step(y, part.astype(work.dtype))
    y = y.astype(x.dtype, copy=False)
    if not attrs["statistics"]:
        return (y,)
    return (y, mean, inverse)


def _layer_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, axis = required(tensors, 0), attrs["axis"]
    mean, variance = _moments(_trailing(x.shape, axis), x, "layer")
    inverse = _inverse_root(variance, attrs["epsilon"], "layer_inverse")

    def element(*i: Expr) -> Expr:
        centred = sub(accumulated(read(x, i)), read(mean, i[:axis]))
        return _scaled(mul(centred, read(inverse, i[:axis])), tensors[1], tensors[2], i, x.dtype)

    y = compute(x.shape, element, "layer_out")
    if not attrs["statistics"]:
        return (y,)

    def kept(tensor: Tensor, name: str) -> Tensor:
        return compute(types[1].shape, lambda *i: read(tensor, i[:axis]), name)

    return (y, kept(mean, "layer_mean_out"), kept(inverse, "layer_inverse_out"))


operator(
    "LayerNormalization",
    "scale (x - mean) / sqrt(var + epsilon) + bias over all axes from `axis` on; "
    "statistics: mean and 1 / sqrt(var + epsilon) too",
    [Operand("x", FLOATS), Operand("scale", FLOATS, optional=True), Operand("bias", FLOATS, optional=True)],
    [Operand("y", FLOATS), Operand("mean", FLOATS, optional=True), Operand("inverse", FLOATS, optional=True)],
    _layer_infer,
    _layer_evaluate,
    {
        "axis": Attr("int", required=True),
        "epsilon": _EPSILON,
        "statistics": Attr("bool", False),
    },
    Fusion.OPAQUE,
    compute=_layer_compute,
)


# GroupNormalization (InstanceNormalization has one channel a group)


def _group_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    same_dtype("GroupNormalization", types)
    x, groups = required(types, 0), attrs["num_groups"]
    if x.rank < 2:
        raise VerifyError(f"GroupNormalization: input has rank {x.rank}, expected at least 2")
    if groups < 1 or x.shape[1] % groups:
        raise VerifyError(f"GroupNormalization: {x.shape[1]} channels do not fall into {groups} groups")
    for what, type in (("scale", types[1]), ("bias", types[2])):
        if type is not None and type.shape != (x.shape[1],):
            raise VerifyError(
                f"GroupNormalization: {what} has shape {list(type.shape)}, expected [{x.shape[1]}]"
            )
    return (TensorType(x.dtype, x.shape),)


def _group_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, groups = required(arrays, 0), attrs["num_groups"]
    work = x.astype(wide(x.dtype), copy=False)
    if not x.size:
        return (x,)
    rows = work.reshape(x.shape[0], groups, -1)
    with np.errstate(all="ignore"):
        mean, variance = _numeric_moments(rows, (2,))
        y = ((rows - mean) / np.sqrt(variance + work.dtype.type(attrs["epsilon"]))).reshape(x.shape)
        column = (-1, *(1 for _ in x.shape[2:]))
        for step, part in ((np.multiply, arrays[1]), (np.add, arrays[2])):
            y = y if part is None else step(y, part.astype(work.dtype).reshape(column))
    return (y.astype(x.dtype, copy=False),)


def _group_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, groups = required(tensors, 0), attrs["num_groups"]
    mean, variance = _moments(_groups(x.shape, groups), x, "group")
    inverse = _inverse_root(variance, attrs["epsilon"], "group_inverse")
    each = const(max(1, x.shape[1] // groups))

    def element(*i: Expr) -> Expr:
        row = [i[0], floordiv(i[1], each)]
        centred = sub(accumulated(read(x, i)), read(mean, row))
        return _scaled(mul(centred, read(inverse, row)), tensors[1], tensors[2], [i[1]], x.dtype)

    return (compute(types[0].shape, element, "group_out"),)


operator(
    "GroupNormalization",
    "scale (x - mean) / sqrt(var + epsilon) + bias, with the statistics of each group of channels (axis 1)",
    [Operand("x", FLOATS), Operand("scale", FLOATS, optional=True), Operand("bias", FLOATS, optional=True)],
    [Operand("y", FLOATS)],
    _group_infer,
    _group_evaluate,
    {"num_groups": Attr("int", required=True), "epsilon": _EPSILON},
    Fusion.OPAQUE,
    compute=_group_compute,
)


# RMSNormalization


def _rms_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, scale = required(types, 0), required(types, 1)
    _check_axis("RMSNormalization", x, attrs["axis"])
    _check_affine("RMSNormalization", x, {"scale": scale})
    return (TensorType(scale.dtype, x.shape),)


def _rms_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, scale = required(arrays, 0), required(arrays, 1)
    work = x.astype(np.promote_types(wide(x.dtype), wide(scale.dtype)), copy=False)
    with np.errstate(all="ignore"):
        mean = np.square(work).mean(axis=tuple(range(attrs["axis"], x.ndim)), keepdims=True)
        y = work / np.sqrt(mean + work.dtype.type(attrs["epsilon"])) * scale.astype(work.dtype)
    return (y.astype(scale.dtype, copy=False),)


def _rms_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, scale, axis = required(tensors, 0), required(tensors, 1), attrs["axis"]
    work = F64 if F64 in (x.dtype, scale.dtype) else accumulator(x.dtype)
    mean = _trailing(x.shape, axis).mean(x, "rms_mean", lambda v, _: mul(cast(v, work), cast(v, work)))
    inverse = _inverse_root(mean, attrs["epsilon"], "rms_inverse")

    def element(*i: Expr) -> Expr:
        value = mul(cast(read(x, i), work), read(inverse, i[:axis]))
        return _scaled(value, scale, None, i, types[0].dtype)

    return (compute(types[0].shape, element, "rms_out"),)


operator(
    "RMSNormalization",
    "scale x / sqrt(mean of squares + epsilon) over all axes from `axis` on, in scale's type",
    [Operand("x", FLOATS), Operand("scale", FLOATS)],
    [Operand("y", FLOATS)],
    _rms_infer,
    _rms_evaluate,
    {"axis": Attr("int", required=True), "epsilon": _EPSILON},
    Fusion.OPAQUE,
    compute=_rms_compute,
)


# MeanVarianceNormalization and LpNormalization

_TINY = 1e-9  # what ONNX's definition adds to the standard deviation


def _mean_variance_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, axes = required(types, 0), attrs["axes"]
    if len(set(axes)) != len(axes) or any(not 0 <= axis < x.rank for axis in axes):
        raise VerifyError(
            f"MeanVarianceNormalization: axes {list(axes)} do not fit a tensor of rank {x.rank}"
        )
    return (TensorType(x.dtype, x.shape),)


def _mean_variance_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    work = x.astype(wide(x.dtype), copy=False)
    with np.errstate(all="ignore"):
        mean, variance = _numeric_moments(work, tuple(attrs["axes"]))
        y = (work - mean) / (np.sqrt(variance) + work.dtype.type(_TINY))
    return (y.astype(x.dtype, copy=False),)


def _mean_variance_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, axes = required(tensors, 0), attrs["axes"]
    mean, variance = _moments(_over(x.shape, axes), x, "mvn")
    deviation = compute(
        variance.shape, lambda *row: call("sqrt", read(variance, row)) + _TINY, "mvn_deviation"
    )

    def element(*i: Expr) -> Expr:
        row = [index for axis, index in enumerate(i) if axis not in axes]
        return cast(sub(accumulated(read(x, i)), read(mean, row)) / read(deviation, row), x.dtype)

    return (compute(types[0].shape, element, "mvn_out"),)


operator(
    "MeanVarianceNormalization",
    "(x - mean) / standard deviation over the given axes",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    _mean_variance_infer,
    _mean_variance_evaluate,
    {"axes": Attr("ints", required=True)},
    Fusion.OPAQUE,
    compute=_mean_variance_compute,
)


def _lp_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    _check_axis("LpNormalization", x, attrs["axis"])
    if attrs["p"] not in (1, 2):
        raise VerifyError(f"LpNormalization: p is {attrs['p']}, expected 1 or 2")
    return (TensorType(x.dtype, x.shape),)


def _lp_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    work = x.astype(wide(x.dtype), copy=False)
    powers = np.abs(work) if attrs["p"] == 1 else np.square(work)
    total = powers.sum(axis=attrs["axis"], keepdims=True)
    norm = total if attrs["p"] == 1 else np.sqrt(total)
    with np.errstate(all="ignore"):
        y = np.where(norm == 0, np.zeros_like(norm), work / norm)
    return (y.astype(x.dtype, copy=False),)


def _lp_compute(tensors: Tensors, attrs: Attrs, types: Results) -> tuple[Tensor, ...]:
    x, axis = required(tensors, 0), attrs["axis"]
    first = attrs["p"] == 1
    rows = _over(x.shape, (axis,))
    total = rows.total(x, "lp_total", lambda v, _: call("abs", v) if first else mul(v, v))
    norm = compute(
        rows.shape, lambda *r: read(total, r) if first else call("sqrt", read(total, r)), "lp_norm"
    )

    def element(*i: Expr) -> Expr:
        n = read(norm, [*i[:axis], *i[axis + 1 :]])
        zero = const(0, n.dtype)
        return cast(select(binary("eq", n, zero), zero, accumulated(read(x, i)) / n), x.dtype)

    return (compute(types[0].shape, element, "lp_out"),)


operator(
    "LpNormalization",
    "x over its norm of order p (1 or 2) along an axis; 0 where the norm is 0",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    _lp_infer,
    _lp_evaluate,
    {"axis": Attr("int", required=True), "p": Attr("int", 2)},
    Fusion.OPAQUE,
    compute=_lp_compute,
)
