"""Batch normalisation and the softmax family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tilewright.frontend.registry import Attributes, Reader, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


def refuse_training(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Only inference: no batch statistics, one scale for each channel."""
    if attributes.get("training_mode", 0):
        yield "attribute 'training_mode' is set; export the model for inference"
    if any(outputs[1:]):
        yield "the results beyond the first (batch statistics) are used; export the model for inference"
    if not attributes.get("spatial", 1):
        yield "attribute 'spatial' is 0"


@importer("BatchNormalization", 7, 9, 14, 15, refuse=refuse_training)
def batch_normalization(site: Site) -> Sequence[Value]:
    operands = [site.operand(index) for index in range(5)]
    return [site.emit("BatchNormalization", *operands, epsilon=site.attr("epsilon", 1e-5))]


def _softmax(op: str) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        x = site.operand(0)
        if site.since >= 13:
            return [site.emit(op, x, axis=site.axis(len(x.shape), -1))]
        return [_flattened(site, op, x)]

    return read


def _flattened(site: Site, op: str, x: Value) -> Value:
    """Before opset 13 all axes from `axis` on are one row."""
    axis = site.axis(len(x.shape), 1)
    if prod(x.shape[axis + 1 :]) == 1:
        return site.emit(op, x, axis=axis)
    rows = site.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return site.reshape(site.emit(op, rows, axis=1), x.shape)


importer("Softmax", 1, 11, 13)(_softmax("Softmax"))
importer("LogSoftmax", 1, 11, 13)(_softmax("LogSoftmax"))
