"""The matrix of patches of a convolution (im2col): every window that a result reads, laid out as channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, const, floordiv, logical_and, mod, mul, read, select
from tilewright.ops.declaration import NUMBERS, operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.windows import pad_for, tap_view, windows
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import TensorType


def matrix_of_weights(w: np.ndarray) -> np.ndarray:
    """Weights [O, C/group, ...] in the order of the patches' channels: [O, taps * C/group, 1, ...]."""
    taps_first = np.moveaxis(w, 1, -1)
    return taps_first.reshape(w.shape[0], prod(w.shape[1:]), *(1 for _ in w.shape[2:]))


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x = required(types, 0)
    if x.rank < 3 or attrs["group"] < 1 or x.shape[1] % attrs["group"]:
        raise VerifyError(
            f"Patches: expected x [N, C, ...] whose channels divide into {attrs['group']} groups, "
            f"found {list(x.shape)}"
        )
    over = windows("Patches", x.shape, attrs["kernel_shape"], attrs)
    channels = x.shape[1] * prod(a.kernel for a in over)
    return (TensorType(x.dtype, (x.shape[0], channels, *(a.outputs for a in over))),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    over = windows("Patches", x.shape, attrs["kernel_shape"], attrs)
    padded = pad_for(x, over, 0)
    views = [tap_view(padded, over, tap) for tap in np.ndindex(*attrs["kernel_shape"])]
    batch, channels, *outputs = views[0].shape
    groups = [view.reshape(batch, attrs["group"], channels // attrs["group"], *outputs) for view in views]
    return (np.concatenate(groups, axis=2).reshape(batch, len(views) * channels, *outputs),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """A copy; padding is a select, unless the input's halo already holds it."""
    x = required(tensors, 0)
    over = windows("Patches", x.shape, attrs["kernel_shape"], attrs)
    channels = x.shape[1] // attrs["group"]
    depth = channels * prod(a.kernel for a in over)

    def element(n: Expr, k: Expr, *outputs: Expr) -> Expr:
        within = mod(k, const(depth))
        first = mul(floordiv(k, const(depth)), const(channels))
        source = add(first, mod(within, const(channels)))
        steps = [channels * prod(a.kernel for a in over[i + 1 :]) for i in range(len(over))]
        taps = [
            mod(floordiv(within, const(step)), const(a.kernel)) for a, step in zip(over, steps, strict=True)
        ]
        positions = [a.position(o, tap) for a, o, tap in zip(over, outputs, taps, strict=True)]
        value = read(x, [n, source, *positions])
        if attrs["padded_by_halo"]:
            return value
        guards = [g for a, p in zip(over, positions, strict=True) for g in a.guards(p)]
        return select(logical_and(*guards), value, const(0, x.dtype))

    return (compute(types[0].shape, element, "patches"),)


operator(
    "Patches",
    "windows as channels: [N, taps * C, outputs...], in each group tap by tap; for products (im2col)",
    [Operand("x", NUMBERS)],
    [Operand("y", NUMBERS)],
    _infer,
    _evaluate,
    {
        "kernel_shape": Attr("ints", required=True),
        "strides": Attr("ints"),
        "dilations": Attr("ints"),
        "pads": Attr("ints"),
        "group": Attr("int", 1),
        "padded_by_halo": Attr("bool", False),
    },
    Fusion.OPAQUE,  # with a halo it must read memory, and windows overlap
    compute=_compute,
)
