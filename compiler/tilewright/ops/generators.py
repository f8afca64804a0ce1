"""RandomUniform: numbers that follow from a seed and from their position, equal on every target.

There is no state: the same seed gives the same tensor at every run, on every target, with any number of
threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import F32, U32
from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, cast, const, mul
from tilewright.ops.declaration import operator
from tilewright.ops.looping import flat
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType

# An integer hash of 32 bits: (shift, odd factor) a round. Factors found by search for a low bias.
_STEP = 0x9E3779B9
_ROUNDS = ((16, 0x21F0AAAD), (15, 0x735A2D97))
_LAST_SHIFT = 15
_BITS = 24  # what a float32 in [0, 1) can hold evenly spaced


def _infer(_: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    if any(extent < 0 for extent in attrs["shape"]):
        raise VerifyError(f"RandomUniform: shape {list(attrs['shape'])} has a negative extent")
    return (TensorType(F32, tuple(attrs["shape"])),)


def _evaluate(_: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    shape = tuple(attrs["shape"])
    with np.errstate(over="ignore"):
        x = np.arange(int(np.prod(shape, dtype=np.int64))).astype(np.uint32) * np.uint32(_STEP)
        x = x + np.uint32(attrs["seed"] & 0xFFFFFFFF)
        for shift, factor in _ROUNDS:
            x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
        x = x ^ (x >> np.uint32(_LAST_SHIFT))
    numbers = (x >> np.uint32(32 - _BITS)).astype(np.float32) * np.float32(2.0**-_BITS)
    return (numbers.reshape(shape),)


def _mixed(x: Expr, shift: int) -> Expr:
    return binary("xor", x, binary("shr", x, const(shift, U32)))


def _compute(_: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]) -> tuple[Tensor, ...]:
    shape = types[0].shape

    def element(*i: Expr) -> Expr:
        x = add(mul(cast(flat(shape, i), U32), const(_STEP, U32)), const(attrs["seed"] & 0xFFFFFFFF, U32))
        for shift, factor in _ROUNDS:
            x = mul(_mixed(x, shift), const(factor, U32))
        x = binary("shr", _mixed(x, _LAST_SHIFT), const(32 - _BITS, U32))
        return mul(cast(x, F32), const(2.0**-_BITS, F32))

    return (compute(shape, element, "random_uniform"),)


operator(
    "RandomUniform",
    "numbers in [0, 1) that follow from the seed and the position",
    [],
    [Operand("y", ("f32",))],
    _infer,
    _evaluate,
    {"shape": Attr("ints", required=True), "seed": Attr("int", required=True)},
    Fusion.INJECTIVE,
    compute=_compute,
)
