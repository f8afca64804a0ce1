"""Operators whose results are known when the model is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, prod

import numpy as np

from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import tensor_array
from tilewright.graph.ir import Value
from tilewright.ops.bounded import count_of
from tilewright.types import Bounded

# Larger results stay an Expand of one element: a model file cannot make the reader allocate without bound.
_LARGEST = 1 << 16

_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def refuse_constants(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Strings and sparse tensors have no counterpart."""
    given = sorted(attributes)
    if len(given) != 1:
        yield f"it needs exactly one of its value attributes, it has {given}"
    elif given[0] != "value" and given[0] not in _NUMBERS:
        yield f"attribute '{given[0]}' is not supported"


@importer("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25, refuse=refuse_constants)
def constant(site: Site) -> Sequence[Value]:
    ((key, value),) = site.attributes.items()
    if key == "value":
        return [site.constant(tensor_array(value, site.base_dir, f"the value of node '{site.name}'"))]
    return [site.constant(np.array(value, _NUMBERS[key]))]


@importer("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(site: Site) -> Sequence[Value]:
    """Zeros of f32 unless `value`, a tensor of one element, says otherwise."""
    shape = site.ints(0)
    fill: np.ndarray = np.zeros(1, np.float32)
    if "value" in site.attributes:
        fill = tensor_array(site.attr("value"), site.base_dir, f"the value of node '{site.name}'")
    if fill.size != 1 or any(extent < 0 for extent in shape):
        raise site.fail(f"cannot fill shape {list(shape)} with a tensor of {fill.size} elements")
    fill = fill.reshape(())
    if prod(shape) <= _LARGEST:
        return [site.constant(np.full(shape, fill, fill.dtype))]
    return [site.emit("Expand", site.constant(fill), shape=shape)]


@importer("Shape", 1, 13, 15, 19, 21, 23, 24, 25)
def shape(site: Site) -> Sequence[Value]:
    """`start` and `end` clamp as a Python slice does."""
    x = site.operand(0)
    extents = x.shape[site.attr("start", 0) : site.attr("end")]
    if not any(isinstance(extent, Bounded) for extent in extents):
        return [site.constant(np.array(extents, np.int64))]
    parts = [site.reshape(extent_value(site, extent), (1,)) for extent in extents]
    return [parts[0] if len(parts) == 1 else site.emit("Concat", *parts, axis=0)]


def extent_value(site: Site, extent: int) -> Value:
    """An extent as an i64 scalar: a constant, or the count that the data give."""
    if not isinstance(extent, Bounded):
        return site.constant(np.array(extent, np.int64))
    count = count_of(site.builder.function, extent)
    if count is None:
        raise site.fail(f"the size {extent} depends on data outside of this sub-graph")
    return count


@importer("Size", 1, 13, 19, 21, 23, 24, 25)
def size(site: Site) -> Sequence[Value]:
    extents = site.operand(0).shape
    total = site.constant(np.array(prod(e for e in extents if not isinstance(e, Bounded)), np.int64))
    for extent in (e for e in extents if isinstance(e, Bounded)):
        total = site.emit("Mul", total, extent_value(site, extent))
    return [total]


@importer("Range", 11, 27)
def range_(site: Site) -> Sequence[Value]:
    start, limit, delta = (site.known(index).reshape(()) for index in range(3))
    if not delta:
        raise site.fail("the step is zero")
    count = max(0, ceil((limit.item() - start.item()) / delta.item()))
    if count > _LARGEST:
        raise site.fail(f"a range of {count} values is too large")
    return [site.constant((start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype))]
