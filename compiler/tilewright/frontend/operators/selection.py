"""Operators with as many results as the data say: they write at their bound, and their results are cut."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site, small_constant
from tilewright.graph.ir import Value


def _cut(site: Site, value: Value, axis: int, count: Value, size: str) -> Value:
    """The value up to the count; what follows from constants becomes one."""
    cut = site.cut(value, axis, count, size)
    known = small_constant(cut)
    return cut if known is None else site.constant(known)


@importer("NonZero", 9, 13)
def nonzero(site: Site) -> Sequence[Value]:
    """A scalar counts as a row of one element, as in NumPy."""
    x = site.operand(0)
    indices, count = site.emit_all("NonZero", x if x.shape else site.reshape(x, (1,)))
    return [_cut(site, indices, 1, count, site.new_size())]


@importer("Compress", 9, 11, 28)
def compress(site: Site) -> Sequence[Value]:
    """Without an axis the elements in order; a condition that is known becomes a plain Gather."""
    x, condition = site.operand(0), site.operand(1)
    axis = site.attr("axis")
    if axis is None:
        x, axis = site.reshape(x, (prod(x.shape),)), 0
    axis = site.normal_axis(axis, len(x.shape))
    if condition.dtype != BOOL or len(condition.shape) != 1:
        raise site.fail(f"the condition is {condition.type}, expected a row of bool")
    known = site.known_if_constant(1)
    if known is not None:
        places = np.flatnonzero(known[: x.shape[axis]])
        return [site.emit("Gather", x, site.constant(places.astype(np.int64)), axis=axis)]
    y, count = site.emit_all("Compress", x, condition, axis=axis)
    return [_cut(site, y, axis, count, site.new_size())]


@importer("Unique", 11, 28)
def unique(site: Site) -> Sequence[Value]:
    """Without an axis of all elements in order."""
    x = site.operand(0)
    axis = site.attr("axis")
    if axis is None:
        x, axis = site.reshape(x, (prod(x.shape),)), 0
    axis = site.normal_axis(axis, len(x.shape))
    sorted_ = bool(site.attr("sorted", 1))
    y, indices, inverse, counts, count, _ = site.emit_all("Unique", x, axis=axis, sorted=sorted_)
    size = site.new_size()
    return [
        _cut(site, y, axis, count, size),
        _cut(site, indices, 0, count, size),
        inverse,
        _cut(site, counts, 0, count, size),
    ]


@importer("NonMaxSuppression", 10, 11)
def non_max_suppression(site: Site) -> Sequence[Value]:
    """A known number of boxes a class makes the bound tighter; without that operand nothing is selected."""
    limit = site.operand(0).shape[1] if len(site.operand(0).shape) == 3 else 0
    most = site.known_if_constant(2) if site.has(2) else np.zeros(1, np.int64)
    if most is not None and most.size == 1:
        limit = min(limit, max(0, int(most.reshape(-1)[0])))
    given = [site.optional(index) for index in range(5)]
    center = bool(site.attr("center_point_box", 0))
    selected, count, _ = site.emit_all("NonMaxSuppression", *given, limit=limit, center=center)
    return [_cut(site, selected, 0, count, site.new_size())]
