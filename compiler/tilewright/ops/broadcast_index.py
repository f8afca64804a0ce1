"""Reading an operand that is broadcast to the shape of the result."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.expr import Expr, const, read
from tilewright.tensor.ir import Tensor


def broadcast_read(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """The element at `indices` of the result: axes align at the end, an axis of extent 1 is read at 0."""
    own = indices[len(indices) - len(tensor.shape) :]
    return read(tensor, [const(0) if n == 1 else i for n, i in zip(tensor.shape, own, strict=True)])
