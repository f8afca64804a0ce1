"""Operators on planes that are neither pools nor convolutions: Col2Im, CenterCropPad, MaxUnpool."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.frontend.operators.windows import per_axis, refuse_windows
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


@importer("Col2Im", 18, refuse=refuse_windows)
def col2im(site: Site) -> Sequence[Value]:
    """Image and block are shape operands."""
    image, block = site.ints(1), site.ints(2)
    rank = len(block)
    strides, dilations = (per_axis(site, name, rank) for name in ("strides", "dilations"))
    return [
        site.emit(
            "Col2Im",
            site.operand(0),
            image_shape=image,
            block_shape=block,
            strides=strides,
            dilations=dilations,
            pads=per_axis(site, "pads", 2 * rank, 0),
        )
    ]


@importer("CenterCropPad", 18)
def center_crop_pad(site: Site) -> Sequence[Value]:
    """A Pad whose negative pads crop; the odd element goes to, or is taken from, the end."""
    x, wanted = site.operand(0), site.ints(1)
    rank = len(x.shape)
    given = site.attr("axes")
    axes = range(rank) if given is None else [site.normal_axis(axis, rank) for axis in given]
    if len(wanted) != len(axes) or min(wanted, default=0) < 0:
        raise site.fail(f"shape {list(wanted)} does not fit the axes {list(axes)} of {x.type}")
    pads = [0] * (2 * rank)
    for axis, extent in zip(axes, wanted, strict=True):
        difference = extent - x.shape[axis]
        begin = abs(difference) // 2
        pads[axis] = begin if difference > 0 else -begin
        pads[rank + axis] = difference - pads[axis]
    return [site.emit("Pad", x, None, pads=tuple(pads), mode="constant") if any(pads) else x]


@importer("MaxUnpool", 9, 11, 22, refuse=refuse_windows)
def max_unpool(site: Site) -> Sequence[Value]:
    """Values are scattered into zeros; places count in the shape that kernel, strides and pads give.

    With output_shape the result is that shape's first part.
    """
    x, places = site.operand(0), site.operand(1)
    rank = len(x.shape) - 2
    if rank < 1 or places.shape != x.shape:
        raise site.fail(f"values {x.type} and places {places.type} must have one shape of rank 3 or more")
    kernel, strides = per_axis(site, "kernel_shape", rank), per_axis(site, "strides", rank)
    pads = per_axis(site, "pads", 2 * rank, 0)
    spatial = [(x.shape[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i] for i in range(rank)]
    inferred = (*x.shape[:2], *spatial)
    if min(inferred) < 0:
        raise site.fail(f"pads {list(pads)} leave nothing of {x.type}")
    zeros = site.constant(np.zeros(prod(inferred), x.dtype.numpy))
    flat, indices = site.reshape(x, (prod(x.shape),)), site.reshape(places, (prod(x.shape),))
    full = site.reshape(site.emit("ScatterElements", zeros, indices, flat, axis=0), inferred)
    target = site.ints(2) if site.has(2) else inferred
    if len(target) != len(inferred):
        raise site.fail(f"output_shape {list(target)} has not the rank of {x.type}")
    after = [n - m for n, m in zip(target, inferred, strict=True)]
    if not any(after):
        return [full]
    return [site.emit("Pad", full, None, pads=(*(0 for _ in after), *after), mode="constant")]
