"""Small nodes of the operators on planes: resampling, sampling, regions, pools, blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from case import HALVES, Case, flags, loose, normal, whole


def spatial_cases() -> Iterator[Case]:
    for family in (_interpolate, _grids, _deformed, _norms, _places, _blocks, _regions, _integers):
        yield from family()


def _interpolate() -> Iterator[Case]:
    for dtype in (np.float32, np.float64):
        x = normal(2, 5, 3, dtype=dtype)
        for axis in range(3):
            indices = whole(4, 2, low=0, high=x.shape[axis])
            yield Case("Interpolate", [x, indices, normal(4, 2, seed=1, dtype=dtype)], {"axis": axis})
    table = [whole(0, 4, low=0, high=3), normal(0, 4)]
    yield Case("Interpolate", [normal(3, 5), *table], {"axis": 1})
    yield Case("Interpolate", [normal(0, 5), whole(3, 4, low=0, high=5), normal(3, 4)], {"axis": 1})
    yield Case("Interpolate", [normal(2, 1), np.zeros((7, 1), np.int32), normal(7, 1)], {"axis": 1})


def _grids() -> Iterator[Case]:
    x, grid = normal(2, 3, 4, 5), normal(2, 3, 6, 2, seed=1) * np.float32(1.3)
    modes = ("nearest", "linear", "cubic")
    for mode, padding, align in product(modes, ("zeros", "border", "reflection"), (0, 1)):
        attrs: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": align}
        yield Case("GridSample", [x, grid], attrs, atol=1e-5)
        line = [normal(1, 2, 1), normal(1, 4, 1, seed=2)]
        yield Case("GridSample", line, attrs, atol=1e-5)
    for mode in modes:
        volume = [normal(1, 2, 3, 4, 2), normal(1, 2, 1, 3, 3, seed=1)]
        yield Case("GridSample", volume, {"mode": mode}, atol=1e-5)
        yield Case("GridSample", [whole(1, 2, 4, 4, dtype=np.int64), grid[:1]], {"mode": mode})
        for dtype in (np.float64, *HALVES):
            yield Case("GridSample", [x.astype(dtype), grid], {"mode": mode}, **loose(dtype))
            yield Case("GridSample", [x, grid.astype(dtype)], {"mode": mode}, atol=1e-5)
    for dtype in (np.uint8, np.int32):
        yield Case("GridSample", [whole(1, 2, 4, 4, dtype=dtype, low=0), grid[:1]], {"mode": "nearest"})
    yield Case("GridSample", [flags(1, 2, 4, 4), grid[:1]], {"mode": "nearest", "padding_mode": "zeros"})
    far = np.array([-1e30, 1e30, -np.inf, np.inf], np.float32).reshape(1, 2, 1, 2)
    yield Case("GridSample", [x[:1], far], {"padding_mode": "zeros"})
    yield Case("GridSample", [x, grid[:, :0]])


def _deformed() -> Iterator[Case]:
    for groups, dtype in ((1, np.float32), (2, np.float32), (2, np.float64), *((2, h) for h in HALVES)):
        x = normal(2, 4, 5, 6, dtype=dtype)
        window: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 0, 1)}
        outputs = (2, 5)
        offset = normal(2, groups * 2 * 6, *outputs, seed=1, dtype=dtype)
        mask = normal(2, groups * 6, *outputs, seed=2, dtype=dtype)
        attrs = {"kernel_shape": (3, 2), "offset_group": groups, **window}
        small = {"rtol": 1e-3, "atol": 1e-4} if dtype in HALVES else {"atol": 1e-5}
        yield Case("DeformedPatches", [x, offset, mask], attrs, **small)
        yield Case("DeformedPatches", [x, offset], attrs, **small)
        w, bias = normal(6, 2, 3, 2, seed=3, dtype=dtype), normal(6, seed=4, dtype=dtype)
        conv: dict[str, Any] = {"group": 2, "offset_group": groups, **window}
        near = {"rtol": 2e-2, "atol": 2e-2} if dtype in HALVES else {"rtol": 1e-4, "atol": 1e-4}
        for rest in ([], [bias], [bias, mask], [None, mask]):
            yield Case("DeformConv", [x, w, offset, *rest], conv, **near)
    line = [normal(1, 2, 7), normal(1, 3, 5, seed=1)]
    yield Case("DeformedPatches", line, {"kernel_shape": (3,)}, atol=1e-5)
    far = np.full((1, 3, 5), 1e30, np.float32)
    yield Case("DeformedPatches", [line[0], far], {"kernel_shape": (3,)})
    yield Case("DeformConv", [normal(0, 2, 5), normal(3, 2, 3), normal(0, 3, 3)])


def _norms() -> Iterator[Case]:
    yield Case("LpPool", [normal(0, 2, 5)], {"kernel_shape": (2,)})
    for p in (1, 2, 3):
        yield Case("LpPool", [normal(2, 3, 7)], {"kernel_shape": (3,), "p": p, "strides": (2,)})
        plane: dict[str, Any] = {"kernel_shape": (2, 3), "pads": (1, 1, 0, 1), "dilations": (2, 1)}
        yield Case("LpPool", [normal(1, 2, 6, 5)], {"p": p, "ceil_mode": 1, "strides": (2, 2), **plane})
        for dtype in (np.float64, *HALVES):
            yield Case("LpPool", [normal(1, 2, 6, 5, dtype=dtype)], {"p": p, **plane}, **loose(dtype))
    yield Case("LpPool", [normal(1, 1, 3, 4, 5)], {"kernel_shape": (3, 2, 2)})


def _places() -> Iterator[Case]:
    """Values repeat, so that the first of several maxima matters."""
    windows: tuple[dict[str, Any], ...] = (
        {"kernel_shape": (2, 2)},
        {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "dilations": (1, 2)},
        {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1},
    )
    for window, order, dtype in product(windows, (0, 1), (np.float32, np.uint8, np.float16)):
        x = whole(2, 2, 5, 5, low=0, high=4, dtype=dtype)
        yield Case("MaxPoolIndices", [x, _maxima(x, window)], {"storage_order": order, **window})
    x = np.array([[[np.nan, 1, -np.inf, -np.inf, np.nan, np.nan]]], np.float32)
    window = {"kernel_shape": (2,), "pads": (1, 1)}
    yield Case("MaxPoolIndices", [x, _maxima(x, window)], window)
    one = np.zeros((1, 1, 1), np.float32)
    window = {"kernel_shape": (2,), "pads": (1, 1), "dilations": (2,)}
    yield Case("MaxPoolIndices", [one, _maxima(one, window)], window)


def _maxima(x: np.ndarray, window: dict[str, Any]) -> np.ndarray:
    import tilewright.ops.all  # noqa: F401
    from tilewright.ops.operator import REGISTRY

    return REGISTRY["MaxPool"].evaluate([x], window)[0]


def _blocks() -> Iterator[Case]:
    window: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 1, 2)}
    plane = {"image_shape": (5, 6), "block_shape": (2, 3), **window}
    for dtype in (np.float32, np.float64, np.float16):
        yield Case("Col2Im", [normal(2, 12, 12, dtype=dtype)], plane, **loose(dtype))
    yield Case("Col2Im", [whole(2, 12, 12, dtype=np.int64)], plane)
    yield Case("Col2Im", [normal(1, 4, 5)], {"image_shape": (6,), "block_shape": (2,)})
    volume = {"image_shape": (3, 3, 2), "block_shape": (1, 2, 2), "pads": (0, 1, 0, 0, 0, 0)}
    yield Case("Col2Im", [normal(1, 8, 9)], volume)


def _regions() -> Iterator[Case]:
    x, images = normal(2, 3, 6, 7), np.array([0, 1, 1, 0], np.int64)
    rois = np.array([[0, 0, 5, 4], [-3, 1, 4, 9], [2.5, 2.5, 2.6, 2.7], [9, 9, 3, 2]], np.float32)
    for mode, half, ratio in product(("avg", "max"), (False, True), (0, 1, 2)):
        attrs: dict[str, Any] = {"mode": mode, "half_pixel": half, "sampling_ratio": ratio}
        attrs |= {"output_height": 2, "output_width": 3, "spatial_scale": 0.75}
        yield Case("RoiAlign", [x, rois, images], attrs, atol=1e-5)
        for dtype in HALVES:
            operands = [x.astype(dtype), rois.astype(dtype), images]
            yield Case("RoiAlign", operands, attrs, rtol=2e-2, atol=1e-2)
    yield Case("RoiAlign", [x, rois[:1], images[:1]])
    yield Case("RoiAlign", [x, rois[:0], images[:0]])
    odd = np.array([[0, 0, np.nan, 3], [np.inf, -np.inf, 3, 3], [0, 0, 3, 3]], np.float32)
    yield Case("RoiAlign", [x, odd, np.array([0, 7, -3], np.int64)], atol=1e-5)
    boxes = np.concatenate([images[:, None].astype(np.float32), rois], axis=1)
    for shape, scale in product(((1, 1), (2, 3), (9, 8)), (1.0, 0.5)):
        yield Case("MaxRoiPool", [x, boxes], {"pooled_shape": shape, "spatial_scale": scale})
    for dtype in HALVES:
        yield Case("MaxRoiPool", [x.astype(dtype), boxes.astype(dtype)], {"pooled_shape": (2, 2)})


def _integers() -> Iterator[Case]:
    x, w = whole(1, 4, 5, 5, dtype=np.uint8, low=0, high=255), whole(6, 2, 3, 3, dtype=np.int8)
    attrs: dict[str, Any] = {"group": 2, "pads": (1, 1, 1, 1), "strides": (2, 1)}
    point = np.array(128, np.uint8)
    channels = whole(6, dtype=np.int8, seed=1)
    for rest in ([], [point], [point, np.array([3], np.int8)], [point, channels], [None, channels]):
        yield Case("ConvInteger", [x, w, *rest], attrs)
    yield Case("ConvInteger", [x, whole(3, 4, 2, 2, dtype=np.int8), point])
    yield Case("ConvInteger", [x, w, point], {"group": 2, "dilations": (2, 1), "pads": (0, 1, 2, 0)})
    yield Case("ConvInteger", [x[:, :, 0], whole(2, 4, 3, dtype=np.uint8, low=0)], {"strides": (2,)})
