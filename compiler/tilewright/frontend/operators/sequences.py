"""Sequences of tensors, as far as they have a known length: they are gone when the model is read.

Positions are shape operands, since they decide which tensor an operator hands on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.frontend.registry import importer
from tilewright.frontend.site import SequenceValue, Site
from tilewright.graph.ir import Value
from tilewright.types import TensorType


@importer("SequenceEmpty", 11)
def sequence_empty(site: Site) -> Sequence[Value]:
    return [_sequence(site, ())]


@importer("SequenceConstruct", 11)
def sequence_construct(site: Site) -> Sequence[Value]:
    return [_sequence(site, site.all_operands())]


@importer("SequenceInsert", 11)
def sequence_insert(site: Site) -> Sequence[Value]:
    """In front of the position, or at the end; a negative position counts from the end."""
    elements = _elements(site)
    at = _position(site, 2, len(elements), len(elements) + 1) if site.has(2) else len(elements)
    return [_sequence(site, (*elements[:at], site.operand(1), *elements[at:]))]


@importer("SequenceErase", 11)
def sequence_erase(site: Site) -> Sequence[Value]:
    """The last element goes when no position is given."""
    elements = _elements(site)
    at = _position(site, 1, len(elements), len(elements)) if site.has(1) else len(elements) - 1
    if not elements:
        raise site.fail("the sequence is empty")
    return [_sequence(site, (*elements[:at], *elements[at + 1 :]))]


@importer("SequenceAt", 11)
def sequence_at(site: Site) -> Sequence[Value]:
    elements = _elements(site)
    return [elements[_position(site, 1, len(elements), len(elements))]]


@importer("SequenceLength", 11)
def sequence_length(site: Site) -> Sequence[Value]:
    return [site.constant(np.array(len(_elements(site)), np.int64))]


@importer("ConcatFromSequence", 11)
def concat_from_sequence(site: Site) -> Sequence[Value]:
    """Along an axis of the tensors, or along a new one."""
    elements = _elements(site)
    if not elements:
        raise site.fail("the sequence is empty")
    rank = len(elements[0].shape)
    if not site.flag("new_axis"):
        return [site.emit("Concat", *elements, axis=site.axis(rank, 0))]
    axis = site.axis(rank + 1, 0)
    parts = [site.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in elements]
    return [site.emit("Concat", *parts, axis=axis)]


@importer("SplitToSequence", 11, 24)
def split_to_sequence(site: Site) -> Sequence[Value]:
    """Parts of the given sizes, of one size, or single slices, which lose their axis unless `keepdims`."""
    x = site.operand(0)
    axis = site.axis(len(x.shape), 0)
    extent = x.shape[axis]
    sizes = _part_sizes(site, extent)
    if sum(sizes) != extent or any(size < 0 for size in sizes):
        raise site.fail(f"sizes {list(sizes)} do not split axis {axis} of {x.type}")
    parts = [x] if len(sizes) == 1 else site.emit_all("Split", x, axis=axis, sizes=sizes) if sizes else []
    if not site.has(1) and not site.flag("keepdims", 1):
        parts = [site.reshape(part, (*x.shape[:axis], *x.shape[axis + 1 :])) for part in parts]
    return [_sequence(site, parts)]


def _part_sizes(site: Site, extent: int) -> tuple[int, ...]:
    if not site.has(1):
        return (1,) * extent
    given = site.ints(1)
    if site.operand(1).shape:
        return given
    if given[0] < 1:
        raise site.fail(f"parts of size {given[0]}: expected at least 1")
    whole, rest = divmod(extent, given[0])
    return (given[0],) * whole + ((rest,) if rest else ())


def _sequence(site: Site, elements: Sequence[Value]) -> SequenceValue:
    dtypes = {value.dtype for value in elements}
    if len(dtypes) > 1:
        raise site.fail(f"the elements have different types: {', '.join(sorted(map(str, dtypes)))}")
    return SequenceValue(f"{site.name}.sequence", TensorType(BOOL, ()), elements=tuple(elements))


def _elements(site: Site) -> tuple[Value, ...]:
    value = site.operand(0)
    if not isinstance(value, SequenceValue):
        raise site.fail(f"operand 0 ('{value.name}') is a tensor, expected a sequence")
    return value.elements


def _position(site: Site, index: int, length: int, limit: int) -> int:
    """A position in [-length, limit) as a non-negative one."""
    numbers = site.ints(index)
    if len(numbers) != 1 or not -length <= numbers[0] < limit:
        raise site.fail(f"position {list(numbers)} does not exist in a sequence of {length}")
    return numbers[0] + length if numbers[0] < 0 else numbers[0]
