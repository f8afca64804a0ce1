"""Lowering rules for half types: the whole operator in float32, its results rounded once."""

from __future__ import annotations

from tilewright.dtypes import F32, DType
from tilewright.graph.ir import Node, Value
from tilewright.ops.operator import Builder, Lower


def is_half(dtype: DType) -> bool:
    """float16 or bfloat16."""
    return dtype.is_float and dtype.bits == 16


def through_float32(rule: Lower) -> Lower:
    """The rule, after a node with half operands has become the same node on float32 ones between casts.

    y = Op(x: f16)   ->   t = Op(Cast(x): f32); y = Cast(t)
    """

    def lower(build: Builder, node: Node) -> tuple[Value, ...]:
        if not any(v is not None and is_half(v.dtype) for v in node.inputs):
            return rule(build, node)
        wide = [_cast(build, v, F32) if v is not None and is_half(v.dtype) else v for v in node.inputs]
        results = build.ops(node.op, *wide, **node.attrs)
        return tuple(_cast(build, new, old.dtype) for new, old in zip(results, node.outputs, strict=True))

    return lower


def _cast(build: Builder, value: Value, to: DType) -> Value:
    return value if value.dtype == to else build.op("Cast", value, to=to)
