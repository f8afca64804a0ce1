"""Finds everything in a model that the front end cannot read, before anything is translated."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, defs

from tilewright.errors import ImportModelError
from tilewright.frontend import operators  # noqa: F401  (fills the table)
from tilewright.frontend.attributes import read_attributes, schema_faults
from tilewright.frontend.registry import OLDEST_OPSET, TABLE
from tilewright.ops import all as _declarations  # noqa: F401  (fills the registry)

STANDARD = ("", "ai.onnx")
# Operators on trial, by their domain and its version; their names are none of the standard ones.
PREVIEW = {"ai.onnx.preview": 1, "ai.onnx.preview.training": 1}


def opset_of(model: ModelProto) -> int:
    """The version of the standard operator set that a model uses. Raises ImportModelError."""
    versions = [entry.version for entry in model.opset_import if entry.domain in STANDARD]
    if not versions:
        raise ImportModelError("the model names no version of the standard operator set (opset_import)")
    opset: int = max(versions)
    newest = defs.onnx_opset_version()
    if opset > newest:
        raise ImportModelError(
            f"the model uses opset {opset}; the installed onnx knows up to {newest}: "
            "upgrade onnx or convert the model"
        )
    for entry in model.opset_import:
        if entry.version != PREVIEW.get(entry.domain, entry.version):
            raise ImportModelError(
                f"the model uses version {entry.version} of {entry.domain}; "
                f"only version {PREVIEW[entry.domain]} is known"
            )
    return opset


def node_name(node: NodeProto) -> str:
    """The node's name, or that of its first output when it is empty."""
    return node.name or next((name for name in node.output if name), node.op_type)


def since_version(node: NodeProto, opset: int) -> int | None:
    """The since-version of the node's operator in an opset; None for an operator that ONNX does not know."""
    schema = _schema(node, opset)
    return None if schema is None else schema.since_version


def check_supported(graph: GraphProto, opset: int) -> None:
    """Raise one ImportModelError that lists every node that cannot be read, sub-graphs included."""
    problems: dict[str, list[str]] = {}
    for node in _all_nodes(graph):
        for reason in _faults(node, opset):
            names = problems.setdefault(reason, [])
            if (name := node_name(node)) not in names:
                names.append(name)
    if not problems:
        return
    listed = "; ".join(
        f"{reason}: {_plural('node', names)} {', '.join(repr(name) for name in names)}"
        for reason, names in problems.items()
    )
    advice = (
        "" if opset >= OLDEST_OPSET else f"; opset {opset} is old: convert it with onnx.version_converter"
    )
    raise ImportModelError(f"{len(problems)} unsupported: {listed}{advice}")


def _faults(node: NodeProto, opset: int) -> Iterator[str]:
    domain = node.domain or "ai.onnx"
    if node.domain not in STANDARD and node.domain not in PREVIEW:
        yield f"{node.op_type} (domain {domain})"
        return
    schema = _schema(node, opset)
    what = f"{node.op_type} (domain {domain}, opset {PREVIEW.get(node.domain, opset)})"
    if schema is None:
        yield f"{what}, which ONNX does not define"
        return
    entry = TABLE.get((node.op_type, schema.since_version))
    if entry is None:
        yield what
        return
    malformed = list(schema_faults(node, schema))
    for fault in malformed:
        yield f"{what}, {fault}"
    if not malformed:
        given = [bool(name) for name in node.output]
        for reason in entry.refuse(read_attributes(node), given):
            yield f"{what}, {reason}"


def _schema(node: NodeProto, opset: int) -> defs.OpSchema | None:
    try:
        if node.domain in PREVIEW:
            schema = defs.get_schema(node.op_type, PREVIEW[node.domain], node.domain)
        else:
            schema = defs.get_schema(node.op_type, opset, "")
    except defs.SchemaError:
        return None
    # A deprecated operator still runs in the opsets that had it, when it has been registered.
    registered = (node.op_type, schema.since_version) in TABLE
    return schema if registered or not schema.deprecated else None


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    pending = [graph]
    while pending:
        for node in pending.pop().node:
            yield node
            pending.extend(subgraphs(node))


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _plural(word: str, things: list[str]) -> str:
    return word if len(things) == 1 else word + "s"
