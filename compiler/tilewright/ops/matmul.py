"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import F64
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, cast, mul, read
from tilewright.ops.declaration import FLOATS, broadcast_shape, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.reading import (
    BYTES,
    WIDE,
    broadcast_matrix,
    broadcast_read,
    factor,
    product_dtype,
    widened,
)
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

_TYPES = (*FLOATS, "i32", "i64", "u32", "u64")
_FACTORS = (*_TYPES, *BYTES)


def _matmul_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b = required(types, 0), required(types, 1)
    if not a.rank or not b.rank:
        raise VerifyError("MatMul: an operand is a scalar; use Mul")
    inner = b.shape[-2] if b.rank > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise VerifyError(f"MatMul: the first operand has {a.shape[-1]} columns, the second {inner} rows")
    batch = broadcast_shape("MatMul", a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2:-1] if a.rank > 1 else ()
    columns = b.shape[-1:] if b.rank > 1 else ()
    return (TensorType(product_dtype("MatMul", a, b, None, attrs), (*batch, *rows, *columns)),)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """numpy.matmul; half types accumulate in float32."""
    work = wide(a.dtype)
    with np.errstate(all="ignore"):
        result = np.matmul(a.astype(work, copy=False), b.astype(work, copy=False))
    return np.asarray(result).astype(a.dtype, copy=False)


def _matmul_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    return (product(*(widened(required(arrays, position), attrs) for position in (0, 1))),)


def _matmul_compute(
    tensors: Sequence[Tensor | None], _: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    a, b = required(tensors, 0), required(tensors, 1)
    rows, columns = int(len(a.shape) > 1), int(len(b.shape) > 1)
    k = reduce_axis(a.shape[-1], "matmul.k")

    def element(*i: Expr) -> Expr:
        batch = i[: len(i) - rows - columns]
        row = i[len(batch) : len(batch) + rows]
        column = i[len(batch) + rows :]
        left = broadcast_matrix(a, batch, [*row, k.var])
        right = broadcast_matrix(b, batch, [k.var, *column])
        return sum_over(mul(factor(left), factor(right)), k)

    total = compute(types[0].shape, element, "matmul")
    dtype = types[0].dtype
    if total.dtype == dtype:
        return (total,)
    return (compute(types[0].shape, lambda *i: cast(read(total, i), dtype), "matmul_out"),)


operator(
    "MatMul",
    "matrix product as numpy.matmul: vectors, matrices, broadcast stacks",
    [Operand("a", _FACTORS), Operand("b", _FACTORS)],
    [Operand("y", _TYPES)],
    _matmul_infer,
    _matmul_evaluate,
    {"wide": WIDE},
    fusion=Fusion.COMPLEX,
    compute=_matmul_compute,
)


def _gemm_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b, c = required(types, 0), required(types, 1), types[2]
    dtype = product_dtype("Gemm", a, b, c, attrs)
    if a.rank != 2 or b.rank != 2:
        raise VerifyError(f"Gemm: operands have ranks {a.rank} and {b.rank}, expected 2 and 2")
    rows, inner = a.shape[::-1] if attrs["transA"] else a.shape
    below, columns = b.shape[::-1] if attrs["transB"] else b.shape
    if inner != below:
        raise VerifyError(f"Gemm: the first operand has {inner} columns, the second {below} rows")
    result = TensorType(dtype, (rows, columns))
    if c is not None and (c.rank > 2 or broadcast_shape("Gemm", c.shape, result.shape) != result.shape):
        raise VerifyError(f"Gemm: c has shape {list(c.shape)}, which does not broadcast to {[rows, columns]}")
    return (result,)


def _gemm_evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    a, b = (widened(required(arrays, position), attrs) for position in (0, 1))
    c = arrays[2]
    work = wide(a.dtype)
    left, right = a.astype(work, copy=False), b.astype(work, copy=False)
    y = product(left.T if attrs["transA"] else left, right.T if attrs["transB"] else right)
    if a.dtype.kind in "iu" and not _whole_factors(attrs):
        work = np.dtype(np.float64)
        y = y.astype(work)
    if attrs["alpha"] != 1:
        y = y * work.type(attrs["alpha"])
    if c is not None and attrs["beta"] != 0:
        y = y + c.astype(work, copy=False) * work.type(attrs["beta"])
    return (y.astype(a.dtype, copy=False),)


def _whole_factors(attrs: Attrs) -> bool:
    """Whether integers can be scaled as they are; otherwise they go through f64 and are truncated."""
    return float(attrs["alpha"]).is_integer() and float(attrs["beta"]).is_integer()


def _gemm_compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    a, b, c = required(tensors, 0), required(tensors, 1), tensors[2]
    k = reduce_axis(a.shape[0] if attrs["transA"] else a.shape[1], "gemm.k")

    def element(i: Expr, j: Expr) -> Expr:
        left = read(a, [k.var, i] if attrs["transA"] else [i, k.var])
        right = read(b, [j, k.var] if attrs["transB"] else [k.var, j])
        return sum_over(mul(factor(left), factor(right)), k)

    total = compute(types[0].shape, element, "gemm")
    added = c if attrs["beta"] != 0 else None
    dtype = types[0].dtype
    if added is None and attrs["alpha"] == 1 and total.dtype == dtype:
        return (total,)

    def finish(*i: Expr) -> Expr:
        value = read(total, i)
        if a.dtype.is_integer and not _whole_factors(attrs):
            value = cast(value, F64)
        if attrs["alpha"] != 1:
            value = value * attrs["alpha"]
        if added is not None:
            term = cast(broadcast_read(added, i), value.dtype)
            value = add(value, term if attrs["beta"] == 1 else term * attrs["beta"])
        return cast(value, dtype)

    return (compute(types[0].shape, finish, "gemm_out"),)


operator(
    "Gemm",
    "alpha a b + beta c, with either matrix transposed; beta = 0 ignores c; fractions of integers truncate",
    [Operand("a", _TYPES), Operand("b", _TYPES), Operand("c", _TYPES, optional=True)],
    [Operand("y", _TYPES)],
    _gemm_infer,
    _gemm_evaluate,
    {
        "alpha": Attr("float", 1.0),
        "beta": Attr("float", 1.0),
        "transA": Attr("int", 0),
        "transB": Attr("int", 0),
        "wide": WIDE,
    },
    Fusion.COMPLEX,
    compute=_gemm_compute,
)
