"""Attention and what stands around it: rotary embeddings, linear attention, causal convolution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, sqrt

import numpy as np

from tilewright.dtypes import BOOL, F32, I64, DType
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type
from tilewright.graph.ir import Value
from tilewright.ops.attention import CAPTURES
from tilewright.ops.through_float32 import is_half


def refuse_modes(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Unknown modes, precisions and windows."""
    mode = attributes.get("qk_matmul_output_mode", 0)
    if mode not in (0, 1, 2, 3):
        yield f"attribute 'qk_matmul_output_mode' is {mode}, expected 0, 1, 2 or 3"
    for side in ("left", "right"):
        size = attributes.get(f"{side}_window_size", -1)
        if size < -1:
            yield f"attribute '{side}_window_size' is {size}, expected at least -1"
    precision = element_type(attributes.get("softmax_precision", 1))
    if precision is None or not precision.is_float:
        yield f"attribute 'softmax_precision' is {attributes['softmax_precision']}, expected a float type"


@importer("Attention", 23, 24, 25, refuse=refuse_modes)
def attention(site: Site) -> Sequence[Value | None]:
    """Masks, causality, windows and lengths become one bias and one table of what is allowed."""
    q, k, v = (site.operand(index) for index in range(3))
    packed = len(q.shape) == 3
    if packed:
        if not {"q_num_heads", "kv_num_heads"} <= set(site.attributes):
            raise site.fail("operands of rank 3 need attributes 'q_num_heads' and 'kv_num_heads'")
        heads, groups = site.attr("q_num_heads"), site.attr("kv_num_heads")
        q, k, v = (_unpacked(site, x, n) for x, n in ((q, heads), (k, groups), (v, groups)))
    past = [site.optional(4), site.optional(5)]
    if (past[0] is None) != (past[1] is None):
        raise site.fail("past_key and past_value must be given together")
    if past[0] is not None and past[1] is not None:
        if site.has(6):
            raise site.fail("nonpad_kv_seqlen cannot be combined with past keys and values")
        k = site.emit("Concat", past[0], k, axis=2)
        v = site.emit("Concat", past[1], v, axis=2)
    bias, allowed = _masks(site, q, k.shape[2])
    capture = CAPTURES[1 + site.attr("qk_matmul_output_mode", 0)]
    wanted = len(site.outputs) > 3 and bool(site.outputs[3])
    extra = {}
    if "softmax_precision" in site.attributes:
        extra["precision"] = element_type(site.attr("softmax_precision"))
    results = site.emit_all(
        "Attention",
        q,
        k,
        _cast(site, v, q.dtype),
        bias,
        allowed,
        scale=site.attr("scale", 1 / sqrt(max(1, q.shape[3]))),
        softcap=site.attr("softcap", 0.0),
        capture=capture if wanted else "none",
        **extra,
    )
    y = results[0]
    if packed:
        turned = site.emit("Transpose", y, perm=(0, 2, 1, 3))
        y = site.reshape(turned, (*turned.shape[:2], turned.shape[2] * turned.shape[3]))
    return [y, k, v, *(results[1:] if wanted else ())]


def _unpacked(site: Site, x: Value, heads: int) -> Value:
    """[B, S, H D] as [B, H, S, D]."""
    batch, steps, features = x.shape
    if heads < 1 or features % heads:
        raise site.fail(f"{features} features do not fall into {heads} heads")
    split = site.reshape(x, (batch, steps, heads, features // heads))
    return site.emit("Transpose", split, perm=(0, 2, 1, 3))


def _cast(site: Site, x: Value, to: DType) -> Value:
    return x if x.dtype == to else site.emit("Cast", x, to=to)


def _masks(site: Site, q: Value, keys: int) -> tuple[Value | None, Value | None]:
    """The additive mask, and what is allowed, bool; both broadcast to [B, H, S, keys], or are None."""
    bias: Value | None = None
    rules: list[Value] = []
    mask = site.optional(3)
    if mask is not None:
        mask = _padded(site, mask if mask.dtype == BOOL else _cast(site, mask, q.dtype), keys)
        if mask.dtype == BOOL:
            rules.append(mask)
        else:
            bias = mask
    rules += _positions(site, q.shape[2], keys)
    if not rules:
        return bias, None
    allowed = rules[0]
    for rule in rules[1:]:
        allowed = site.emit("And", allowed, rule)
    return bias, allowed


def _padded(site: Site, mask: Value, keys: int) -> Value:
    """A mask of fewer keys forbids the others; one key stands for all."""
    missing = keys - mask.shape[-1]
    if missing <= 0:
        return mask
    fill = site.constant(np.array(False if mask.dtype == BOOL else -inf).astype(mask.dtype.numpy))
    rank = len(mask.shape)
    return site.emit("Pad", mask, fill, pads=(*(0 for _ in range(2 * rank - 1)), missing))


def _positions(site: Site, rows: int, keys: int) -> list[Value]:
    """Rules on the distance of query and key, and on the number of keys that are no padding."""
    lengths, past = site.optional(6), site.optional(4)
    row = site.constant(np.arange(rows).reshape(rows, 1))
    key = site.constant(np.arange(keys).reshape(1, keys))
    valid: Value | None = None
    if lengths is not None:
        valid = site.reshape(_cast(site, lengths, I64), (lengths.shape[0], 1, 1, 1))
    offset: Value = site.constant(np.array(0 if past is None else past.shape[2]))
    if valid is not None and past is None:
        offset = site.emit("Sub", valid, site.constant(np.array(rows)))
    rules: list[Value] = []

    def shifted(distance: int) -> Value:
        return site.emit("Add", site.emit("Add", row, offset), site.constant(np.array(distance)))

    left, right = site.attr("left_window_size", -1), site.attr("right_window_size", -1)
    if site.flag("is_causal"):
        rules.append(site.emit("LessOrEqual", key, shifted(0)))
    if left >= 0:
        rules.append(site.emit("GreaterOrEqual", key, shifted(-left)))
    if right >= 0:
        rules.append(site.emit("LessOrEqual", key, shifted(right)))
    if valid is not None:
        rules.append(site.emit("Less", key, valid))
    return rules


@importer("LinearAttention", 27)
def linear_attention(site: Site) -> Sequence[Value]:
    """`chunk_size` is a hint that does not change the result."""
    operands = [site.operand(0), site.operand(1), site.operand(2), *(site.optional(i) for i in (3, 4, 5))]
    return site.emit_all(
        "LinearAttention",
        *operands,
        q_num_heads=site.attr("q_num_heads"),
        kv_num_heads=site.attr("kv_num_heads"),
        scale=site.attr("scale", 0.0),
        update_rule=site.attr("update_rule", "gated_delta"),
    )


@importer("RotaryEmbedding", 23)
def rotary_embedding(site: Site) -> Sequence[Value]:
    """Pairs of features turned by the angle of the token's position."""
    x = site.operand(0)
    dtype, shape = x.dtype, x.shape
    if len(shape) == 3:
        heads = site.attr("num_heads", 0)
        if heads < 1 or shape[2] % heads:
            raise site.fail(f"{shape[2]} features need attribute 'num_heads', a divisor of them")
        x = site.reshape(x, (*shape[:2], heads, shape[2] // heads))
    width = x.shape[3]
    turned = site.attr("rotary_embedding_dim", 0) or width
    if turned % 2 or turned > width:
        raise site.fail(f"{turned} of {width} features cannot be turned in pairs")
    batch, steps = shape[0], shape[2] if len(shape) == 4 else shape[1]
    cosine, sine = (_angles(site, index, batch, steps, turned // 2, len(shape) == 4) for index in (1, 2))
    x = _widened(site, x)
    step = 2 if site.flag("interleaved") else 1
    half = turned if step == 2 else turned // 2
    first = _span(site, x, 0, half, step)
    second = _span(site, x, 1 if step == 2 else half, turned, step)
    real = site.emit("Sub", site.emit("Mul", cosine, first), site.emit("Mul", sine, second))
    imaginary = site.emit("Add", site.emit("Mul", sine, first), site.emit("Mul", cosine, second))
    parts = [real, imaginary]
    if step == 2:
        columns = [site.reshape(part, (*part.shape, 1)) for part in parts]
        parts = [site.reshape(site.emit("Concat", *columns, axis=4), (*x.shape[:3], turned))]
    if turned < width:
        parts.append(_span(site, x, turned, width, 1))
    y = parts[0] if len(parts) == 1 else site.emit("Concat", *parts, axis=3)
    return [_cast(site, site.reshape(y, shape), dtype)]


def _angles(site: Site, index: int, batch: int, steps: int, pairs: int, heads_first: bool) -> Value:
    """The cached cosines or sines of every token, shaped to broadcast over the heads."""
    cache = _widened(site, site.operand(index))
    if site.has(3):
        cache = site.emit("Gather", cache, site.operand(3), axis=0)
    if cache.shape != (batch, steps, pairs):
        raise site.fail(f"a cache gives {list(cache.shape)}, expected {[batch, steps, pairs]}")
    return site.reshape(cache, (batch, 1, steps, pairs) if heads_first else (batch, steps, 1, pairs))


def _widened(site: Site, x: Value) -> Value:
    return _cast(site, x, F32 if is_half(x.dtype) else x.dtype)


def _span(site: Site, x: Value, start: int, end: int, step: int) -> Value:
    """x[..., start:end:step]."""
    rank = len(x.shape)
    return site.emit(
        "Slice",
        x,
        starts=(*(0 for _ in range(rank - 1)), start),
        ends=(*x.shape[:-1], end),
        axes=tuple(range(rank)),
        steps=(*(1 for _ in range(rank - 1)), step),
    )


def refuse_activations(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    activation = attributes.get("activation", "none")
    if activation not in ("none", "silu", "swish"):
        yield f"attribute 'activation' is '{activation}', expected none, silu or swish"


@importer("CausalConvWithState", 27, refuse=refuse_activations)
def causal_convolution(site: Site) -> Sequence[Value]:
    """A depthwise convolution of what came before and the input; its last elements are the new state."""
    x, w, bias, past = site.operand(0), site.operand(1), site.optional(2), site.optional(3)
    if len(x.shape) != 3 or len(w.shape) != 3:
        raise site.fail(f"operands are {x.type} and {w.type}, expected rank 3")
    batch, channels, length = x.shape
    before = w.shape[2] - 1
    if past is None:
        past = site.emit("Expand", site.scalar(0, x), shape=(batch, channels, before))
    padded = site.emit("Concat", past, x, axis=2)
    y = site.emit(
        "Conv",
        *(v if v is None else _widened(site, v) for v in (padded, w, bias)),
        strides=(1,),
        dilations=(1,),
        pads=(0, 0),
        group=channels,
    )
    if site.attr("activation", "none") != "none":
        y = site.emit("Mul", y, site.emit("Sigmoid", y))
    return [_cast(site, y, x.dtype), _span(site, padded, length, length + before, 1)]
