"""Normalisation at inference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, attributes, operator, required, same_dtype, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.ops.through_float32 import through_float32
from tilewright.types import TensorType

_STATISTICS = ("scale", "bias", "mean", "var")


def _infer(types: Sequence[TensorType | None], _: Attrs) -> tuple[TensorType, ...]:
    same_dtype("BatchNormalization", types)
    x = required(types, 0)
    if x.rank < 2:
        raise VerifyError(f"BatchNormalization: input has rank {x.rank}, expected at least 2")
    for name, type in zip(_STATISTICS, types[1:], strict=True):
        if type is None or type.shape != (x.shape[1],):
            found = None if type is None else list(type.shape)
            raise VerifyError(f"BatchNormalization: {name} has shape {found}, expected [{x.shape[1]}]")
    return (TensorType(x.dtype, x.shape),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x = required(arrays, 0)
    work = wide(x.dtype)
    column = (-1, *(1 for _ in x.shape[2:]))
    scale, bias, mean, var = (required(arrays, i).astype(work).reshape(column) for i in range(1, 5))
    factor = scale / np.sqrt(var + work.type(attrs["epsilon"]))
    return (((x.astype(work, copy=False) - mean) * factor + bias).astype(x.dtype, copy=False),)


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """(x - mean) s + bias with s = scale / sqrt(var + epsilon), folded where constant.

    Not x s + (bias - mean s), whose two terms cancel where the mean is large against the deviation.
    """
    x, scale, bias, mean, var = (node.operand(i) for i in range(5))
    epsilon = build.constant(np.asarray(attributes(node)["epsilon"], x.dtype.numpy), "epsilon")
    s = build.op("Div", scale, build.op("Sqrt", build.op("Add", var, epsilon)))
    column = (x.shape[1], *(1 for _ in x.shape[2:]))
    centred = build.op("Sub", x, build.op("Reshape", mean, shape=column))
    scaled = build.op("Mul", centred, build.op("Reshape", s, shape=column))
    return (build.op("Add", scaled, build.op("Reshape", bias, shape=column)),)


operator(
    "BatchNormalization",
    "scale (x - mean) / sqrt(var + epsilon) + bias for each channel (axis 1)",
    [Operand("x", FLOATS), *(Operand(name, FLOATS) for name in _STATISTICS)],
    [Operand("y", FLOATS)],
    _infer,
    _evaluate,
    {"epsilon": Attr("float", 1e-5)},
    lower=through_float32(_lower),
)
