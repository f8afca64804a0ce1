"""Pack and Unpack: the same logical tensor in another storage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.expr import read
from tilewright.ops.declaration import operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.storage import PLAIN
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType


def _pack_infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    attrs["storage"].terms(x.rank)  # raises where the storage has another rank
    return (x.with_storage(attrs["storage"]),)


def _evaluate(arrays: Sequence[np.ndarray | None], _: Attrs) -> tuple[np.ndarray, ...]:
    return (required(arrays, 0),)


def _compute(tensors: Sequence[Tensor | None], _: Attrs, types: Sequence[TensorType]) -> tuple[Tensor, ...]:
    x = required(tensors, 0)
    return (compute(types[0].shape, lambda *i: read(x, i), "pack"),)


operator(
    "Pack",
    "the same tensor laid out in another storage",
    [Operand("x")],
    [Operand("y")],
    _pack_infer,
    _evaluate,
    {"storage": Attr("storage", required=True)},
    Fusion.INJECTIVE,
    compute=_compute,
)
operator(
    "Unpack",
    "the same tensor in plain row-major storage",
    [Operand("x")],
    [Operand("y")],
    lambda types, _: (required(types, 0).with_storage(PLAIN),),
    _evaluate,
    fusion=Fusion.INJECTIVE,
    compute=_compute,
)
