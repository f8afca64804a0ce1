"""Operators that take parts of tensors or join them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


@importer("Concat", 4, 11, 13)
def concat(site: Site) -> Sequence[Value]:
    parts = site.all_operands()
    if len(parts) == 1:
        return parts
    return [site.emit("Concat", *parts, axis=site.axis(len(parts[0].shape), 0))]


@importer("Slice", 1, 10, 11, 13)
def slice_(site: Site) -> Sequence[Value]:
    """Bounds as Python's range takes them, for all axes: with a negative step, end -1 is before the first."""
    x = site.operand(0)
    rank = len(x.shape)
    if site.since < 10:
        first, last = site.attr("starts"), site.attr("ends")
        axes, strides = site.attr("axes"), None
    else:
        first, last = site.ints(1), site.ints(2)
        axes = site.ints(3) if site.has(3) else None
        strides = site.ints(4) if site.has(4) else None
    axes = tuple(range(len(first))) if axes is None else axes
    strides = (1,) * len(first) if strides is None else strides
    if not len(first) == len(last) == len(axes) == len(strides):
        raise site.fail("starts, ends, axes and steps have different lengths")
    bounds = [(0, extent, 1) for extent in x.shape]
    for start, end, axis, step in zip(first, last, axes, strides, strict=True):
        at = site.normal_axis(axis, rank)
        if step == 0:
            raise site.fail("a step is zero")
        bounds[at] = slice(start, end, step).indices(x.shape[at])
        if bounds[at] == (0, int(x.shape[at]), 1):
            bounds[at] = (0, x.shape[at], 1)  # all of it, also where the size depends on data
    if all(bound == (0, extent, 1) for bound, extent in zip(bounds, x.shape, strict=True)):
        return [x]
    starts, ends, steps = zip(*bounds, strict=True)
    return [site.emit("Slice", x, starts=starts, ends=ends, axes=tuple(range(rank)), steps=steps)]


@importer("Gather", 1, 11, 13)
def gather(site: Site) -> Sequence[Value]:
    x = site.operand(0)
    return [site.emit("Gather", x, site.operand(1), axis=site.axis(len(x.shape), 0))]


@importer("Split", 2, 11, 13, 18)
def split(site: Site) -> Sequence[Value]:
    """Sizes come as attribute, as operand, or as a number of equal parts of which the last may be smaller."""
    x = site.operand(0)
    axis = site.axis(len(x.shape), 0)
    sizes = site.ints(1) if site.has(1) else site.attr("split")
    if sizes is None:
        sizes = _equal_parts(site, x.shape[axis])
    if sum(sizes) != x.shape[axis] or len(sizes) != len(site.outputs) or any(size < 0 for size in sizes):
        raise site.fail(
            f"sizes {list(sizes)} do not split axis {axis} of {x.type} into {len(site.outputs)} results"
        )
    return [x] if len(sizes) == 1 else site.emit_all("Split", x, axis=axis, sizes=tuple(sizes))


def _equal_parts(site: Site, extent: int) -> tuple[int, ...]:
    count = site.attr("num_outputs", len(site.outputs))
    if count < 1 or (site.since < 18 and extent % count):
        raise site.fail(f"an axis of extent {extent} does not split into {count} equal parts")
    size = -(-extent // count)
    return tuple(max(0, min(size, extent - size * index)) for index in range(count))
