"""BitCast: the same bits as another element type of the same width.

The operand's own type is an attribute too, because bits of a float64 evaluation would be others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, call, read
from tilewright.ops.declaration import operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, to = required(types, 0), attrs["to"]
    if x.dtype != attrs["of"]:
        raise VerifyError(f"BitCast: the operand is {x.dtype}, declared as {attrs['of']}")
    if x.dtype.bits != to.bits:
        raise VerifyError(f"BitCast: {x.dtype} has {x.dtype.bits} bits, {to} has {to.bits}")
    return (TensorType(to, x.shape),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    """In float64 evaluation the operand first becomes what it is declared to be."""
    x = required(arrays, 0)
    held = np.ascontiguousarray(x, attrs["of"].numpy).reshape(x.shape)
    return (held.view(attrs["to"].numpy),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    x, to = required(tensors, 0), attrs["to"]

    def element(*i: Expr) -> Expr:
        return read(x, i) if x.dtype == to else call("bitcast", read(x, i), dtype=to)

    return (compute(types[0].shape, element, "bit_cast"),)


operator(
    "BitCast",
    "the same bits as another element type of the same width",
    [Operand("x")],
    [Operand("y")],
    _infer,
    _evaluate,
    {"of": Attr("dtype", required=True), "to": Attr("dtype", required=True)},
    Fusion.ELEMENTWISE,
    compute=_compute,
)
