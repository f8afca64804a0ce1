"""How operators read their operands: broadcast axes, and the type in which products are added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import F32, DType
from tilewright.errors import VerifyError
from tilewright.expr import Expr, cast, const, read
from tilewright.ops.declaration import wide
from tilewright.ops.operator import Attr, Attrs
from tilewright.tensor.ir import Tensor
from tilewright.types import TensorType

WIDE = Attr("bool", False)  # of products of a half type: the result is not rounded to it, but stays float32


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


def product_dtype(name: str, factors: DType, added: TensorType | None, attrs: Attrs) -> DType:
    """The element type of a sum of products, of factors of one type, and of what is added to it.

    Raises VerifyError when the added operand has another type.
    """
    dtype = accumulator(factors) if attrs["wide"] else factors
    if added is not None and added.dtype != dtype:
        raise VerifyError(f"{name}: operands have element types {factors} and {added.dtype}")
    return dtype


def widened(factor: np.ndarray, attrs: Attrs) -> np.ndarray:
    """An operand of a product in the type of the result."""
    return factor.astype(wide(factor.dtype), copy=False) if attrs["wide"] else factor
