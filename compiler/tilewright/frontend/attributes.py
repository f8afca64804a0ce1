"""Attributes of an ONNX node, checked against ONNX's own schema of the operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from onnx import AttributeProto, NodeProto, defs

_FIELDS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.TENSOR: "t",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
}


def read_attributes(node: NodeProto) -> dict[str, Any]:
    """Values as int, float, str, tuples of these, or TensorProto; other kinds as the protobuf message."""
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
    """What in the node contradicts its schema: arity, unknown or missing attributes, their types."""
    if not schema.min_input <= len(node.input) <= schema.max_input:
        wanted = _range(schema.min_input, schema.max_input)
        yield f"it has {len(node.input)} operands, the operator takes {wanted}"
    if not schema.min_output <= len(node.output) <= schema.max_output:
        wanted = _range(schema.min_output, schema.max_output)
        yield f"it has {len(node.output)} results, the operator has {wanted}"
    names = [attribute.name for attribute in node.attribute]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"attribute '{name}' is given twice"
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            yield f"attribute '{attribute.name}' does not exist in this version of the operator"
        elif attribute.ref_attr_name or attribute.type != _code(known):
            wanted = AttributeProto.AttributeType.Name(_code(known))
            yield f"attribute '{attribute.name}' is not of type {wanted}"
    for name, known in sorted(schema.attributes.items()):
        if known.required and name not in names:
            yield f"attribute '{name}' is missing"


def _code(known: defs.OpSchema.Attribute) -> int:
    """The schema's attribute type as the number that AttributeProto uses."""
    return int(cast(Any, known.type).value)


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"at least {least}" if most > 1000 else f"{least} to {most}"
