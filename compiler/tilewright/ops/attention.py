"""Scaled dot-product attention over heads, and linear attention, its recurrent kin."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, attributes, broadcast_shape, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.ops.through_float32 import through_float32
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
CAPTURES = ("none", "raw", "capped", "biased", "probabilities")


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    q, k, v = (required(types, index) for index in range(3))
    for name, given in (("q", q), ("k", k), ("v", v)):
        if given.rank != 4 or given.dtype != q.dtype:
            raise VerifyError(f"Attention: {name} is {given}, expected {q.dtype} of rank 4")
    batch, heads, rows, width = q.shape
    groups, keys = k.shape[1], k.shape[2]
    if not groups or heads % groups or k.shape != (batch, groups, keys, width):
        raise VerifyError(f"Attention: keys {list(k.shape)} do not fit queries {list(q.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise VerifyError(f"Attention: values {list(v.shape)} do not fit keys {list(k.shape)}")
    scores = (batch, heads, rows, keys)
    for name, type in (("bias", types[3]), ("allowed", types[4])):
        if type is not None and (type.rank > 4 or broadcast_shape("Attention", type.shape, scores) != scores):
            raise VerifyError(f"Attention: {name} {list(type.shape)} does not broadcast to {list(scores)}")
    if types[3] is not None and types[3].dtype != q.dtype:
        raise VerifyError(f"Attention: bias has element type {types[3].dtype}, expected {q.dtype}")
    if attrs["capture"] not in CAPTURES:
        raise VerifyError(f"Attention: capture '{attrs['capture']}' is unknown")
    y = TensorType(q.dtype, (*q.shape[:3], v.shape[3]))
    return (y,) if attrs["capture"] == "none" else (y, TensorType(q.dtype, scores))


def _evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    dtype = required(arrays, 0).dtype
    work = wide(dtype)
    q, k, v = (required(arrays, index).astype(work) for index in range(3))
    bias, allowed = arrays[3], arrays[4]
    repeats = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeats, axis=1), np.repeat(v, repeats, axis=1)
    kept = {}
    with np.errstate(all="ignore"):
        scores = (q * work.type(attrs["scale"])) @ k.swapaxes(2, 3)
        kept["raw"] = scores
        if attrs["softcap"]:
            cap = work.type(attrs["softcap"])
            scores = np.tanh(scores / cap) * cap
        kept["capped"] = scores
        full = np.zeros((), work) if bias is None else bias.astype(work)
        if allowed is not None:
            full = np.where(allowed, full, work.type(-inf))
        scores = scores + full
        kept["biased"] = scores
        shifted = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-inf))
        weights = shifted / shifted.sum(axis=-1, keepdims=True)
        if full.ndim:
            masked = np.isneginf(full.max(axis=-1, keepdims=True, initial=-inf))
            weights = np.where(masked, work.type(0), weights)
        kept["probabilities"] = weights
    y = (weights @ v).astype(dtype, copy=False)
    return (y,) if attrs["capture"] == "none" else (y, kept[attrs["capture"]].astype(dtype, copy=False))


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """Query heads that share a key head become more rows of one product: [B, G, H/G S, D] x [B, G, D, K]."""
    attrs = attributes(node)
    q, k, v = (node.operand(index) for index in range(3))
    batch, heads, rows, width = q.shape
    groups, keys = k.shape[1], k.shape[2]
    kept: dict[str, Value] = {}
    scaled = build.op("Mul", q, _number(build, q, attrs["scale"]))
    gathered = build.op("Reshape", scaled, shape=(batch, groups, heads // groups * rows, width))
    product = build.op("MatMul", gathered, build.op("Transpose", k, perm=(0, 1, 3, 2)))
    scores = kept["raw"] = build.op("Reshape", product, shape=(batch, heads, rows, keys))
    if attrs["softcap"]:
        cap = _number(build, q, attrs["softcap"])
        scores = build.op("Mul", build.op("Tanh", build.op("Div", scores, cap)), cap)
    kept["capped"] = scores
    bias = _full_bias(build, node)
    if bias is not None:
        scores = build.op("Add", scores, bias)
    kept["biased"] = scores
    weights = _softmax(build, scores, attrs)
    if bias is not None and bias.type.rank and bias.shape[-1]:
        highest = build.op("ReduceMax", bias, axes=(bias.type.rank - 1,), keepdims=True)
        masked = build.op("Equal", highest, _number(build, q, -inf))
        weights = build.op("Where", masked, _number(build, q, 0), weights)
    kept["probabilities"] = weights
    spread = build.op("Reshape", weights, shape=(batch, groups, heads // groups * rows, keys))
    y = build.op("Reshape", build.op("MatMul", spread, v), shape=node.outputs[0].shape)
    return (y,) if attrs["capture"] == "none" else (y, kept[attrs["capture"]])


def _full_bias(build: Builder, node: Node) -> Value | None:
    """What is added to the scores: the bias, minus infinity where nothing is allowed."""
    bias, allowed = ((*node.inputs, None, None)[index] for index in (3, 4))
    if allowed is None:
        return bias
    q = node.operand(0)
    below = _number(build, q, -inf)
    return build.op("Where", allowed, _number(build, q, 0) if bias is None else bias, below)


def _softmax(build: Builder, scores: Value, attrs: Attrs) -> Value:
    """In a wider type when one is asked for; a narrower one would only lose digits."""
    if not scores.shape[-1]:
        return scores
    precise = attrs["precision"]
    if precise is None or precise.bits <= scores.dtype.bits:
        return build.op("Softmax", scores, axis=3)
    weights = build.op("Softmax", build.op("Cast", scores, to=precise), axis=3)
    return build.op("Cast", weights, to=scores.dtype)


def _number(build: Builder, like: Value, number: float) -> Value:
    return build.constant(np.asarray(number, like.dtype.numpy), "number")


operator(
    "Attention",
    "softmax(scale q k^T + bias) v for each head; rows without an allowed key are 0; capture: scores too",
    [
        Operand("q", FLOATS),
        Operand("k", FLOATS),
        Operand("v", FLOATS),
        Operand("bias", FLOATS, optional=True),
        Operand("allowed", ("bool",), optional=True),
    ],
    [Operand("y", FLOATS), Operand("scores", FLOATS, optional=True)],
    _infer,
    _evaluate,
    {
        "scale": Attr("float", required=True),
        "softcap": Attr("float", 0.0),
        "precision": Attr("dtype"),
        "capture": Attr("str", "none"),
    },
    lower=through_float32(_lower),
)
