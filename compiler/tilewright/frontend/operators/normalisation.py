"""Batch normalisation and the softmax family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tilewright.dtypes import F32, F64, DType
from tilewright.frontend.registry import Attributes, Reader, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value
from tilewright.ops.through_float32 import is_half


def refuse_results(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """From opset 14 on only training has more than one result."""
    if any(outputs[1:]) and not attributes.get("training_mode", 0):
        yield "results beyond the first are used, which only training has; set 'training_mode'"


@importer("BatchNormalization", 14, 15, refuse=refuse_results)
def batch_normalization(site: Site) -> Sequence[Value]:
    """Training normalises with the batch's statistics and hands on the running ones."""
    if not site.flag("training_mode"):
        return [_batch_norm(site, site.operand(0), site.operand(3), site.operand(4))]
    y, running, _ = _trained(site, site.operand(0))
    return [y, *running]


@importer("BatchNormalization", 7, 9)
def old_batch_normalization(site: Site) -> Sequence[Value]:
    """Training is what has more than one result. Without `spatial` every element of a sample is a channel."""
    x = site.operand(0)
    if not site.attr("spatial", 1):
        x = site.reshape(x, (x.shape[0], prod(x.shape[1:])))
    statistics = [site.operand(index) for index in (3, 4)]
    if not any(site.outputs[1:]):
        y = _batch_norm(site, x, *statistics)
        return [site.reshape(y, site.operand(0).shape)]
    y, running, saved = _trained(site, x)
    return [site.reshape(y, site.operand(0).shape), *running, *saved]


def _trained(site: Site, x: Value) -> tuple[Value, list[Value], list[Value]]:
    """Result, running statistics, and those of the batch (population variance)."""
    work = F32 if is_half(x.dtype) else x.dtype
    wide = _cast(site, x, work)
    axes = tuple(axis for axis in range(len(x.shape)) if axis != 1)
    mean = _channel_mean(site, wide, axes)
    centred = site.emit("Sub", wide, site.reshape(mean, (mean.shape[0], *(1 for _ in x.shape[2:]))))
    variance = _channel_mean(site, site.emit("Mul", centred, centred), axes)
    momentum = site.attr("momentum", 0.9)
    running = []
    for old, new in ((site.operand(3), mean), (site.operand(4), variance)):
        kept = _scaled(site, _flat(site, _cast(site, old, work)), momentum)
        mixed = site.emit("Add", kept, _scaled(site, new, 1 - momentum))
        running.append(site.reshape(_cast(site, mixed, old.dtype), old.shape))
    saved = [site.reshape(_cast(site, v, x.dtype), site.operand(3).shape) for v in (mean, variance)]
    return _batch_norm(site, x, mean, variance), running, saved


def _channel_mean(site: Site, x: Value, axes: tuple[int, ...]) -> Value:
    return site.emit("ReduceMean", x, axes=axes, keepdims=False)


def _scaled(site: Site, x: Value, factor: float) -> Value:
    return site.emit("Mul", x, site.scalar(factor, x))


def _flat(site: Site, x: Value) -> Value:
    return site.reshape(x, (prod(x.shape),))


def _cast(site: Site, x: Value, to: DType) -> Value:
    return x if x.dtype == to else site.emit("Cast", x, to=to)


def _batch_norm(site: Site, x: Value, mean: Value, variance: Value) -> Value:
    """Operands of several types are brought to the widest. A vector is a batch of one channel."""
    operands = [x, *(_flat(site, v) for v in (site.operand(1), site.operand(2), mean, variance))]
    if len(x.shape) == 1:
        operands[0] = site.reshape(x, (x.shape[0], 1))
    types = {v.dtype for v in operands}
    if len(types) > 1:
        operands = [_cast(site, v, F64 if F64 in types else F32) for v in operands]
    y = site.emit("BatchNormalization", *operands, epsilon=site.attr("epsilon", 1e-5))
    return site.reshape(_cast(site, y, x.dtype), x.shape)


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
