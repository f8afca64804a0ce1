"""Resize and Upsample: one axis after the other, by tables that are made while the model is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, F32, F64, DType
from tilewright.frontend.operators.resampling import (
    COORDINATES,
    LINEAR,
    ROUNDINGS,
    Kernel,
    ResizedAxis,
    cubic,
)
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

MODES = ("nearest", "linear", "cubic")
POLICIES = ("stretch", "not_larger", "not_smaller")
_CHOICES: dict[str, tuple[Sequence[str], str]] = {
    "mode": (MODES, "nearest"),
    "coordinate_transformation_mode": (COORDINATES, "half_pixel"),
    "nearest_mode": (tuple(ROUNDINGS), "round_prefer_floor"),
    "keep_aspect_ratio_policy": (POLICIES, "stretch"),
}


def refuse_resize(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Names that ONNX does not define, and an antialiasing filter without interpolation."""
    for name, (known, default) in _CHOICES.items():
        if (found := attributes.get(name, default)) not in known:
            yield f"attribute '{name}' is '{found}', expected one of {', '.join(known)}"
    if attributes.get("antialias") and attributes.get("mode", "nearest") == "nearest":
        yield "attribute 'antialias' needs the mode linear or cubic"


def refuse_upsample(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Upsample knows two modes; `bilinear` is an old name of one."""
    if (mode := attributes.get("mode", "nearest")) not in ("nearest", "linear", "bilinear"):
        yield f"attribute 'mode' is '{mode}', expected nearest or linear"


@importer("Resize", 10, 11, 13, 18, 19, refuse=refuse_resize)
def resize(site: Site) -> Sequence[Value]:
    """Opset 10 has scales only, and places results as `asymmetric` and `floor` do."""
    x = site.operand(0)
    if site.since < 11:
        return [_resized(site, x, _by_scales(site, x, site.known(1)), "asymmetric", "floor")]
    axes = _chosen_axes(site, len(x.shape))
    scales = site.known(2) if site.has(2) else np.zeros(0, np.float32)
    if scales.size:
        resized = _by_scales(site, x, scales, axes)
    elif site.has(3):
        resized = _by_sizes(site, x, site.ints(3), axes)
    else:
        raise site.fail("neither scales nor sizes are given")
    coordinates = site.attr("coordinate_transformation_mode", "half_pixel")
    if coordinates == "tf_crop_and_resize":
        resized = _in_region(site, resized, axes)
    return [_resized(site, x, resized, coordinates, site.attr("nearest_mode", "round_prefer_floor"))]


@importer("Upsample", 7, 9, refuse=refuse_upsample)
def upsample(site: Site) -> Sequence[Value]:
    """Scales are an attribute in opset 7; results lie where `asymmetric` and `floor` of Resize put them."""
    x = site.operand(0)
    scales = site.known(1) if site.since >= 9 else np.array(site.attr("scales"), np.float32)
    return [_resized(site, x, _by_scales(site, x, scales), "asymmetric", "floor")]


def _chosen_axes(site: Site, rank: int) -> tuple[int, ...]:
    given = site.attr("axes")
    axes = tuple(range(rank)) if given is None else tuple(site.normal_axis(axis, rank) for axis in given)
    if len(set(axes)) != len(axes):
        raise site.fail(f"axes {list(given)} name an axis twice")
    return axes


def _by_scales(
    site: Site, x: Value, scales: np.ndarray, axes: Sequence[int] | None = None
) -> dict[int, ResizedAxis]:
    """Extents are cut to whole numbers in single precision, as ONNX's own shape inference does."""
    axes = tuple(range(len(x.shape))) if axes is None else axes
    flat = scales.reshape(-1).astype(np.float32)
    if len(flat) != len(axes) or not (np.isfinite(flat) & (flat > 0)).all():
        raise site.fail(f"scales {flat.tolist()} do not fit the axes {list(axes)} of {x.type}")
    resized = {}
    for axis, scale in zip(axes, flat, strict=True):
        size = int(np.floor(np.float32(x.shape[axis]) * scale))
        resized[axis] = ResizedAxis(x.shape[axis], size, float(scale))
    return resized


def _by_sizes(site: Site, x: Value, sizes: Sequence[int], axes: Sequence[int]) -> dict[int, ResizedAxis]:
    """Sizes as given, or the common scale that a policy makes of them."""
    if len(sizes) != len(axes) or min(sizes, default=0) < 0:
        raise site.fail(f"sizes {list(sizes)} do not fit the axes {list(axes)} of {x.type}")
    if any(not x.shape[axis] for axis in axes):
        raise site.fail(f"an empty axis of {x.type} cannot be resized")
    scales = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    policy = site.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" and scales:
        common = min(scales) if policy == "not_larger" else max(scales)
        scales = [common] * len(axes)
        sizes = [int(common * x.shape[axis] + 0.5) for axis in axes]
    triples = zip(axes, sizes, scales, strict=True)
    return {axis: ResizedAxis(x.shape[axis], size, scale) for axis, size, scale in triples}


def _in_region(site: Site, resized: dict[int, ResizedAxis], axes: Sequence[int]) -> dict[int, ResizedAxis]:
    """The axes with the region of interest, which is all starts, then all ends."""
    region = site.known(1).reshape(-1).astype(np.float64) if site.has(1) else np.zeros(0)
    if region.size != 2 * len(axes):
        raise site.fail(f"the region of interest has {region.size} numbers, expected {2 * len(axes)}")
    pairs = zip(axes, region[: len(axes)], region[len(axes) :], strict=True)
    return {
        axis: ResizedAxis(a.extent, a.size, a.scale, float(start), float(end))
        for axis, start, end in pairs
        for a in [resized[axis]]
    }


def _resized(site: Site, x: Value, resized: dict[int, ResizedAxis], coordinates: str, rounding: str) -> Value:
    """x with every axis of `resized` resampled."""
    changed = {axis: how for axis, how in sorted(resized.items()) if not how.is_whole}
    if any(how.size and not how.extent for how in changed.values()):
        raise site.fail(f"an empty axis of {x.type} cannot be resized")
    mode = site.attr("mode", "nearest")
    places = {axis: how.coordinates(coordinates) for axis, how in changed.items()}
    if mode == "nearest":
        y = x
        for axis, how in changed.items():
            y = _copied(site, y, axis, how.nearest(places[axis], rounding))
    else:
        y = _interpolated(site, x, changed, places, _kernel(site, mode))
    if coordinates == "tf_crop_and_resize":
        outside = {axis: how.outside(places[axis]) for axis, how in changed.items()}
        y = _extrapolated(site, y, outside)
    return y


def _kernel(site: Site, mode: str) -> Kernel:
    return cubic(site.attr("cubic_coeff_a", -0.75)) if mode == "cubic" else LINEAR


def _copied(site: Site, x: Value, axis: int, taken: np.ndarray) -> Value:
    """Elements of an axis by their places; a whole factor repeats, equal steps slice."""
    extent, size = x.shape[axis], len(taken)
    if extent and size % extent == 0 and (taken == np.arange(size) // max(1, size // extent)).all():
        return _repeated(site, x, axis, size // extent)
    steps = np.diff(taken)
    if size and (steps == steps[:1]).all() and steps[:1].sum() > 0:
        bounds = [(0, n, 1) for n in x.shape]
        bounds[axis] = (int(taken[0]), int(taken[-1]) + 1, int(steps[0]))
        starts, ends, strides = zip(*bounds, strict=True)
        return site.emit("Slice", x, starts=starts, ends=ends, axes=tuple(range(len(x.shape))), steps=strides)
    return site.emit("Gather", x, site.constant(taken), axis=axis)


def _repeated(site: Site, x: Value, axis: int, times: int) -> Value:
    if times == 1:
        return x
    head, tail = x.shape[: axis + 1], x.shape[axis + 1 :]
    apart = site.reshape(x, (*head, 1, *tail))
    spread = site.emit("Expand", apart, shape=(*head, times, *tail))
    return site.reshape(spread, (*x.shape[:axis], x.shape[axis] * times, *tail))


def _interpolated(
    site: Site, x: Value, changed: dict[int, ResizedAxis], places: dict[int, np.ndarray], kernel: Kernel
) -> Value:
    """Interpolation in float32 (float64 for wide types); integers are rounded and limited to their range."""
    work = _working_type(site, x.dtype)
    y = x if x.dtype == work else site.emit("Cast", x, to=work)
    antialias, exclude = site.flag("antialias"), site.flag("exclude_outside")
    for axis, how in changed.items():
        indices, weights = how.table(places[axis], kernel, antialias, exclude)
        table = site.constant(weights.astype(work.numpy))
        y = site.emit("Interpolate", y, site.constant(indices), table, axis=axis)
    if x.dtype == work:
        return y
    if x.dtype.is_integer:
        limits: Any = np.iinfo(x.dtype.numpy)
        rounded = site.emit("Round", y)
        y = site.emit("Clip", rounded, site.scalar(limits.min, y), site.scalar(_highest(limits, work), y))
    return site.emit("Cast", y, to=x.dtype)


def _highest(limits: Any, work: DType) -> float:
    """The largest number of the working type that the integer type holds."""
    high = work.numpy.type(limits.max)
    return float(high if int(high) <= limits.max else np.nextafter(high, work.numpy.type(0)))


def _working_type(site: Site, dtype: DType) -> DType:
    if dtype == BOOL:
        raise site.fail("truth values cannot be interpolated, use the mode nearest")
    return F64 if dtype == F64 or (dtype.is_integer and dtype.bits > 16) else F32


def _extrapolated(site: Site, y: Value, outside: dict[int, np.ndarray]) -> Value:
    """The extrapolation value where any axis is read outside."""
    rank = len(y.shape)
    value = site.scalar(site.attr("extrapolation_value", 0.0), y)
    for axis, mask in outside.items():
        if mask.any():
            shaped = mask.reshape([-1 if other == axis else 1 for other in range(rank)])
            y = site.emit("Where", site.constant(shaped), value, y)
    return y
