"""Operators that read images at computed positions: GridSample, AffineGrid, DeformConv, pools of regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tilewright.frontend.operators.windows import per_axis, refuse_windows
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_MODES = {
    "bilinear": "linear",
    "bicubic": "cubic",
    "nearest": "nearest",
    "linear": "linear",
    "cubic": "cubic",
}
_PADDINGS = ("zeros", "border", "reflection")


def refuse_sampling(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Modes that ONNX does not define."""
    if (mode := attributes.get("mode", "linear")) not in _MODES:
        yield f"attribute 'mode' is '{mode}', expected one of {', '.join(_MODES)}"
    if (padding := attributes.get("padding_mode", "zeros")) not in _PADDINGS:
        yield f"attribute 'padding_mode' is '{padding}', expected one of {', '.join(_PADDINGS)}"


@importer("GridSample", 16, 20, 22, refuse=refuse_sampling)
def grid_sample(site: Site) -> Sequence[Value]:
    """Opset 16 calls the modes bilinear and bicubic."""
    return [
        site.emit(
            "GridSample",
            site.operand(0),
            site.operand(1),
            mode=_MODES[site.attr("mode", "linear")],
            padding_mode=site.attr("padding_mode", "zeros"),
            align_corners=site.attr("align_corners", 0),
        )
    ]


@importer("AffineGrid", 20)
def affine_grid(site: Site) -> Sequence[Value]:
    """A product of the matrices with the homogeneous coordinates of all pixels, which are a constant."""
    theta, size = site.operand(0), site.ints(1)
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape[1:] != (rank, rank + 1) or theta.shape[0] != size[0]:
        raise site.fail(f"matrices {theta.type} do not fit the size {list(size)}")
    extents = size[2:]
    if min(extents) < 1:
        raise site.fail(f"size {list(size)} has no pixels")
    axes = [_centres(extent, site.flag("align_corners")) for extent in extents]
    grid = np.meshgrid(*axes, indexing="ij")
    ones = np.ones(extents)
    points = np.stack([*reversed(grid), ones], axis=-1).reshape(-1, rank + 1)
    columns = site.emit("Transpose", theta, perm=(0, 2, 1))
    moved = site.emit("MatMul", site.constant(points.astype(theta.dtype.numpy)), columns)
    return [site.reshape(moved, (size[0], *extents, rank))]


def _centres(extent: int, align_corners: bool) -> np.ndarray:
    """Normalised positions of the pixels of an axis."""
    if align_corners:
        return np.linspace(-1, 1, extent) if extent > 1 else np.zeros(1)
    return (2 * np.arange(extent) + 1) / extent - 1


@importer("DeformConv", 19, 22, refuse=refuse_windows)
def deform_conv(site: Site) -> Sequence[Value]:
    """The kernel's shape is the weights'."""
    x, weights = site.operand(0), site.operand(1)
    kernel, rank = weights.shape[2:], len(x.shape) - 2
    declared = site.attr("kernel_shape")
    if declared and tuple(declared) != kernel:
        raise site.fail(f"attribute 'kernel_shape' is {list(declared)}, the weights have {list(kernel)}")
    strides, dilations = (per_axis(site, name, rank) for name in ("strides", "dilations"))
    return [
        site.emit(
            "DeformConv",
            x,
            weights,
            site.operand(2),
            site.optional(3),
            site.optional(4),
            strides=strides,
            dilations=dilations,
            pads=per_axis(site, "pads", 2 * rank, 0),
            group=site.attr("group", 1),
            offset_group=site.attr("offset_group", 1),
        )
    ]


def refuse_regions(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Modes and sizes that ONNX does not define."""
    if (mode := attributes.get("mode", "avg")) not in ("avg", "max"):
        yield f"attribute 'mode' is '{mode}', expected avg or max"
    pixels = attributes.get("coordinate_transformation_mode", "half_pixel")
    if pixels not in ("half_pixel", "output_half_pixel"):
        yield (
            f"attribute 'coordinate_transformation_mode' is '{pixels}', "
            "expected half_pixel or output_half_pixel"
        )


@importer("RoiAlign", 10, 16, 22, refuse=refuse_regions)
def roi_align(site: Site) -> Sequence[Value]:
    """Before opset 16 coordinates are not shifted by half a pixel."""
    default = "half_pixel" if site.since >= 16 else "output_half_pixel"
    return [
        site.emit(
            "RoiAlign",
            *(site.operand(index) for index in range(3)),
            mode=site.attr("mode", "avg"),
            output_height=site.attr("output_height", 1),
            output_width=site.attr("output_width", 1),
            sampling_ratio=site.attr("sampling_ratio", 0),
            spatial_scale=site.attr("spatial_scale", 1.0),
            half_pixel=site.attr("coordinate_transformation_mode", default) == "half_pixel",
        )
    ]


@importer("MaxRoiPool", 1, 22)
def max_roi_pool(site: Site) -> Sequence[Value]:
    shape, scale = site.attr("pooled_shape"), site.attr("spatial_scale", 1.0)
    return [
        site.emit("MaxRoiPool", site.operand(0), site.operand(1), pooled_shape=shape, spatial_scale=scale)
    ]
