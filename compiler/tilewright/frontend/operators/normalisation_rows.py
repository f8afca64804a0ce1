"""Normalisations over rows: layers, groups, instances, local responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.dtypes import BF16, F32
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type
from tilewright.graph.ir import Value

_STASH = (F32, BF16)


def refuse_stash(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """The statistics are float32 or bfloat16."""
    if element_type(attributes.get("stash_type", 1)) not in _STASH:
        yield f"attribute 'stash_type' is {attributes['stash_type']}, expected 1 (float) or 16 (bfloat16)"


@importer("LayerNormalization", 17, refuse=refuse_stash)
def layer_normalization(site: Site) -> Sequence[Value]:
    """The statistics have the type that `stash_type` says; computed is in float32 at least."""
    x = site.operand(0)
    statistics = any(site.outputs[1:])
    y, *moments = site.emit_all(
        "LayerNormalization",
        x,
        site.operand(1),
        site.optional(2),
        axis=site.axis(len(x.shape), -1),
        epsilon=site.attr("epsilon", 1e-5),
        statistics=statistics,
    )
    stash = element_type(site.attr("stash_type", 1))
    return [y, *(v if v.dtype == stash else site.emit("Cast", v, to=stash) for v in moments)]


@importer("RMSNormalization", 23)
def rms_normalization(site: Site) -> Sequence[Value]:
    """Computed in float32 at least, whatever `stash_type` says."""
    x = site.operand(0)
    axis, epsilon = site.axis(len(x.shape), -1), site.attr("epsilon", 1e-5)
    return [site.emit("RMSNormalization", x, site.operand(1), axis=axis, epsilon=epsilon)]


@importer("InstanceNormalization", 6, 22)
def instance_normalization(site: Site) -> Sequence[Value]:
    """One channel a group."""
    x, scale, bias = (site.operand(index) for index in range(3))
    channels = x.shape[1]
    epsilon = site.attr("epsilon", 1e-5)
    return [site.emit("GroupNormalization", x, scale, bias, num_groups=channels, epsilon=epsilon)]


@importer("GroupNormalization", 18, 21)
def group_normalization(site: Site) -> Sequence[Value]:
    """Before opset 21 scale and bias hold one number a group."""
    x, groups = site.operand(0), site.attr("num_groups")
    scale, bias = site.operand(1), site.operand(2)
    if site.since < 21:
        scale, bias = (_each_channel(site, v, groups, x.shape[1]) for v in (scale, bias))
    epsilon = site.attr("epsilon", 1e-5)
    return [site.emit("GroupNormalization", x, scale, bias, num_groups=groups, epsilon=epsilon)]


def _each_channel(site: Site, value: Value, groups: int, channels: int) -> Value:
    if value.shape != (groups,) or groups < 1 or channels % groups:
        raise site.fail(
            f"scale and bias have shape {list(value.shape)}, expected [{groups}], a divisor of {channels}"
        )
    if groups == channels:
        return value
    spread = site.emit("Expand", site.reshape(value, (groups, 1)), shape=(groups, channels // groups))
    return site.reshape(spread, (channels,))


@importer("LRN", 1, 13)
def lrn(site: Site) -> Sequence[Value]:
    values = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    attrs = {name: site.attr(name, default) for name, default in values.items()}
    return [site.emit("LRN", site.operand(0), size=site.attr("size"), **attrs)]


@importer("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(site: Site) -> Sequence[Value]:
    x = site.operand(0)
    axes = tuple(site.normal_axis(axis, len(x.shape)) for axis in site.attr("axes", (0, 2, 3)))
    return [site.emit("MeanVarianceNormalization", x, axes=axes)]


@importer("LpNormalization", 1, 22)
def lp_normalization(site: Site) -> Sequence[Value]:
    x = site.operand(0)
    return [site.emit("LpNormalization", x, axis=site.axis(len(x.shape), -1), p=site.attr("p", 2))]
