"""How expressions read their operands: broadcast axes, and the type in which products are added up."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dtypes import F32, DType
from tilewright.expr import Expr, cast, const, read
from tilewright.tensor.ir import Tensor


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
