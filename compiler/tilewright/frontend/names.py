"""Names in a model file must be text: protobuf hands damaged ones over as bytes, which nothing expects."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import TensorProto

from tilewright.errors import ImportModelError


def check_text(message: Message) -> None:
    """Raise ImportModelError when a string field anywhere in the message is not UTF-8."""
    pending: list[Any] = [message]
    while pending:
        current = pending.pop()
        for name, value in _fields(current):
            if isinstance(value, Message):
                pending.append(value)
            elif isinstance(value, bytes):
                raise ImportModelError(f"the file is damaged: the {name} {value[:40]!r} is not text")


def _fields(message: Message) -> list[tuple[str, Any]]:
    """String fields and sub-messages, repeated ones one by one."""
    if isinstance(message, TensorProto):  # not through ListFields, which would copy the weights
        return [("name", message.name), *(("external_data", entry) for entry in message.external_data)]
    found: list[tuple[str, Any]] = []
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        single = isinstance(value, str | bytes | Message)
        found += [(field.name, item) for item in ([value] if single else value)]
    return found
