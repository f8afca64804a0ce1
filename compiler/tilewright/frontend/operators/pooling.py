"""Pools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.frontend.operators.windows import per_axis, refuse_windows, window_pads
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


def refuse_indices(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """The second result of MaxPool, the places of the maxima, is not supported."""
    yield from refuse_windows(attributes, outputs)
    if any(outputs[1:]):
        yield "the result 'Indices' is used"


@importer("MaxPool", 1, 8, 10, 11, 12, 22, refuse=refuse_indices)
def max_pool(site: Site) -> Sequence[Value]:
    """`storage_order` only concerns the indices."""
    return [site.emit("MaxPool", site.operand(0), **_window(site))]


@importer("AveragePool", 7, 10, 11, 19, 22, refuse=refuse_windows)
def average_pool(site: Site) -> Sequence[Value]:
    window = _window(site)
    include = site.flag("count_include_pad")
    return [site.emit("AveragePool", site.operand(0), count_include_pad=include, **window)]


@importer("GlobalAveragePool", 1, 22)
def global_average_pool(site: Site) -> Sequence[Value]:
    _spatial_rank(site)
    return [site.emit("GlobalAveragePool", site.operand(0))]


@importer("GlobalMaxPool", 1, 22)
def global_max_pool(site: Site) -> Sequence[Value]:
    _spatial_rank(site)
    return [site.emit("GlobalMaxPool", site.operand(0))]


def _window(site: Site) -> dict[str, Any]:
    rank = _spatial_rank(site)
    kernel = per_axis(site, "kernel_shape", rank)
    strides, dilations = (per_axis(site, name, rank) for name in ("strides", "dilations"))
    pads = window_pads(site, site.operand(0).shape[2:], kernel, strides, dilations)
    return {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "ceil_mode": site.flag("ceil_mode"),
    }


def _spatial_rank(site: Site) -> int:
    rank = len(site.operand(0).shape) - 2
    if rank < 1:
        raise site.fail(f"expected batch, channels and spatial axes, the input is {site.operand(0).type}")
    return rank
