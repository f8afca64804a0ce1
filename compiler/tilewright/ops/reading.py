"""How operators read their operands: broadcast axes, and the type in which products are added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import F32, I32, DType
from tilewright.errors import VerifyError
from tilewright.expr import Expr, cast, const, read
from tilewright.ops.declaration import same_dtype
from tilewright.ops.operator import Attr, Attrs
from tilewright.tensor.ir import Tensor
from tilewright.types import TensorType

# Of products of a half type: the result is not rounded to it, but stays float32. Products of bytes, signed or
# not, must have it: their result is i32.
WIDE = Attr("bool", False)
BYTES = ("i8", "u8")


def broadcast_read(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """The element at `indices` of the result: axes align at the end, an axis of extent 1 is read at 0."""
    own = indices[len(indices) - len(tensor.shape) :]
    return read(tensor, [const(0) if n == 1 else i for n, i in zip(tensor.shape, own, strict=True)])


def broadcast_matrix(tensor: Tensor, batch: Sequence[Expr], last: Sequence[Expr]) -> Expr:
    """An element of a stack of matrices whose leading axes are broadcast to `batch`."""
    leading = len(tensor.shape) - len(last)
    own = batch[len(batch) - leading :] if leading else ()
    fixed = [const(0) if n == 1 else i for n, i in zip(tensor.shape[:leading], own, strict=True)]
    return read(tensor, [*fixed, *last])


def accumulator(dtype: DType) -> DType:
    """float32 for the half types, otherwise the type itself."""
    return F32 if dtype.is_float and dtype.bits == 16 else dtype


def accumulated(e: Expr) -> Expr:
    """A term in the type in which sums are kept."""
    return cast(e, accumulator(e.dtype))


def sum_type(factor: DType) -> DType:
    """The type in which products of such factors are added up: i32 for bytes, else as `accumulator`."""
    return I32 if factor.name in BYTES else accumulator(factor)


def factor(e: Expr) -> Expr:
    """A factor of a product in the type in which products are added up."""
    return cast(e, sum_type(e.dtype))


def product_dtype(name: str, a: TensorType, b: TensorType, added: TensorType | None, attrs: Attrs) -> DType:
    """The element type of a sum of products of two operands, and of what is added to it.

    Raises VerifyError when the operands or what is added have types that do not go together.
    """
    if {a.dtype.name, b.dtype.name} - {*BYTES}:
        same_dtype(name, [a, b])
    elif not attrs["wide"]:
        raise VerifyError(f"{name}: the attribute 'wide' is required for operands of {a.dtype} and {b.dtype}")
    dtype = sum_type(a.dtype) if attrs["wide"] else a.dtype
    if added is not None and added.dtype != dtype:
        raise VerifyError(f"{name}: operands have element types {a.dtype} and {added.dtype}")
    return dtype


def widened(factor: np.ndarray, attrs: Attrs) -> np.ndarray:
    """An operand of a product in the type of the result."""
    return factor.astype(sum_type(DType.of(factor.dtype)).numpy, copy=False) if attrs["wide"] else factor
