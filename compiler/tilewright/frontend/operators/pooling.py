"""Pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.operators.windows import per_axis, refuse_windows, window_pads
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


@importer("MaxPool", 1, 8, 10, 11, 12, 22, refuse=refuse_windows)
def max_pool(site: Site) -> Sequence[Value]:
    """The places of the maxima are found when the model asks for them."""
    x, window = site.operand(0), _window(site)
    y = site.emit("MaxPool", x, **window)
    if not any(site.outputs[1:]):
        return [y]
    order = site.attr("storage_order", 0)
    return [y, site.emit("MaxPoolIndices", x, y, storage_order=order, **window)]


@importer("LpPool", 2, 11, 18, 22, refuse=refuse_windows)
def lp_pool(site: Site) -> Sequence[Value]:
    return [site.emit("LpPool", site.operand(0), p=site.attr("p", 2), **_window(site))]


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


@importer("GlobalLpPool", 2, 22)
def global_lp_pool(site: Site) -> Sequence[Value]:
    """One window over the whole plane."""
    x = site.operand(0)
    _spatial_rank(site)
    return [site.emit("LpPool", x, kernel_shape=x.shape[2:], p=site.attr("p", 2))]


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
