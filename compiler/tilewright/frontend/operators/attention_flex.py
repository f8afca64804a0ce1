"""FlexAttention (ai.onnx.preview): attention whose scores and probabilities pass through sub-graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

from tilewright.dtypes import F32, F64, DType
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type
from tilewright.graph.ir import Value


def refuse_precision(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    precision = element_type(attributes.get("softmax_precision", 1))
    if precision is None or not precision.is_float:
        yield f"attribute 'softmax_precision' is {attributes['softmax_precision']}, expected a float type"


@importer("FlexAttention", 1, refuse=refuse_precision)
def flex_attention(site: Site) -> Sequence[Value]:
    """prob_mod(softmax(score_mod(scale q k^T))) v, in the precision of the softmax."""
    q, k, v = (site.operand(index) for index in range(3))
    if any(len(x.shape) != 4 for x in (q, k, v)):
        raise site.fail(f"operands are {q.type}, {k.type} and {v.type}, expected rank 4")
    batch, heads, rows, width = q.shape
    groups, keys = k.shape[1], k.shape[2]
    if not groups or heads % groups or k.shape != (batch, groups, keys, width) or v.shape[:3] != k.shape[:3]:
        raise site.fail(f"queries {q.type}, keys {k.type} and values {v.type} do not fit each other")
    dtype, work = v.dtype, F64 if q.dtype == F64 else F32
    if "softmax_precision" in site.attributes:
        work = element_type(site.attr("softmax_precision")) or work
    exact = work if work.bits > 16 else F32  # products of half types are rounded once
    q, k, v = (_cast(site, x, exact) for x in (q, k, v))
    scale = site.scalar(site.attr("scale", 1 / sqrt(max(1, width))), q)
    shared = (batch, groups, heads // groups * rows)
    queries = site.reshape(site.emit("Mul", q, scale), (*shared, width))
    product = site.emit("MatMul", queries, site.emit("Transpose", k, perm=(0, 1, 3, 2)))
    scores = _cast(site, site.reshape(product, (batch, heads, rows, keys)), work)
    scores = _modified(site, "score_mod", scores)
    weights = _modified(site, "prob_mod", site.emit("Softmax", scores, axis=3))
    y = site.emit("MatMul", site.reshape(_cast(site, weights, exact), (*shared, keys)), v)
    return [_cast(site, site.reshape(y, (batch, heads, rows, v.shape[3])), dtype)]


def _modified(site: Site, name: str, value: Value) -> Value:
    """What a sub-graph makes of the value, if there is one."""
    if name not in site.attributes:
        return value
    results = site.reader.inlined(site.graph(name), [value])
    if len(results) != 1 or results[0].type != value.type:
        raise site.fail(f"'{name}' must give one result of type {value.type}")
    return results[0]


def _cast(site: Site, x: Value, to: DType) -> Value:
    return x if x.dtype == to else site.emit("Cast", x, to=to)
