"""Attributes of an ONNX node, checked against ONNX's own schema of the operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import AttributeProto, NodeProto, defs

_FIELDS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.TENSOR: "t",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
}


def read_attributes(node: NodeProto) -> dict[str, Any]:
    """Attribute values as int, float, str, tuples of these, or TensorProto; other kinds as the protobuf message."""
    return {attribute.name: _value(attribute) for attribute in node.attribute}


def _value(attribute: AttributeProto) -> Any:
    if attribute.type == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if attribute.type == AttributeProto.STRINGS:
        return tuple(text.decode("utf-8", "replace") for text in attribute.strings)
    field = _FIELDS.get(attribute.type)
    if field is None:
        return attribute
    value = getattr(attribute, field)
    return tuple(value) if field in ("floats", "ints") else value


def schema_faults(node: NodeProto, schema: defs.OpSchema) -> Iterator[str]:
    """What in the node contradicts the operator's schema: arity, unknown or missing attributes, their types."""
    if not schema.min_input <= len(node.input) <= schema.max_input:
        yield f"it has {len(node.input)} operands, the operator takes {_range(schema.min_input, schema.max_input)}"
    if not schema.min_output <= len(node.output) <= schema.max_output:
        yield f"it has {len(node.output)} results, the operator has {_range(schema.min_output, schema.max_output)}"
    names = [attribute.name for attribute in node.attribute]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"attribute '{name}' is given twice"
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            yield f"attribute '{attribute.name}' does not exist in this version of the operator"
        elif attribute.ref_attr_name or attribute.type != known.type.value:
            yield f"attribute '{attribute.name}' is not of type {known.type.name}"
    for name, known in sorted(schema.attributes.items()):
        if known.required and name not in names:
            yield f"attribute '{name}' is missing"


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"at least {least}" if most > 1000 else f"{least} to {most}"
