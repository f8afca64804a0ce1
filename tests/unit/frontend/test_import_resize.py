"""Resize, Upsample and the operators that sample images, read from ONNX."""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import onnx
import pytest

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]


def ramp(*shape: int) -> np.ndarray:
    return np.arange(prod(shape), dtype=np.float32).reshape(shape)


def wave(*shape: int) -> np.ndarray:
    return np.asarray(np.sin(ramp(*shape)), np.float32)


@pytest.fixture
def resized(build: Build, run: Run) -> Callable[..., np.ndarray]:
    """resized(x, scales or sizes, opset, roi, **attributes) -> the result of one Resize."""

    def call(
        x: np.ndarray,
        scales: Sequence[float] = (),
        sizes: Sequence[int] = (),
        opset: int = 19,
        roi: Sequence[float] = (),
        **attributes: Any,
    ) -> np.ndarray:
        model = _resize(build, x, scales, sizes, opset, roi, **attributes)
        return run(model, {"x": x})["y"]

    return call


def _resize(
    build: Build,
    x: np.ndarray,
    scales: Sequence[float],
    sizes: Sequence[int],
    opset: int,
    roi: Sequence[float] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    constants = {"roi": np.array(roi, np.float32)}
    operands = ["x", "roi"]
    if len(scales):
        constants["s"] = np.array(scales, np.float32)
        operands.append("s")
    if len(sizes):
        constants["z"] = np.array(sizes, np.int64)
        operands += ["", "z"]
    node = onnx.helper.make_node("Resize", operands, ["y"], name="n", **attributes)
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    return build([node], {"x": x}, ["y"], constants, opset=opset, output_kind=kind)


MODES = [
    *product(("nearest",), ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    ("linear", ""),
    ("cubic", ""),
]
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize(("mode", "rounding"), MODES)
def test_every_mode_as_onnxruntime_computes_it(
    build: Build, run: Run, mode: str, rounding: str, coordinates: str
) -> None:
    """Scales whose products are whole: of fractional extents the engines know two readings."""
    ort = pytest.importorskip("onnxruntime")
    x = wave(1, 2, 4, 6)
    for scales in ([1, 1, 2, 1.5], [1, 1, 0.5, 0.5], [1, 1, 1.25, 0.5], [1, 1, 1, 3], [1, 1, 0.25, 2]):
        more: dict[str, Any] = {"nearest_mode": rounding} if rounding else {}
        for extra in ({}, {"antialias": 1}, {"exclude_outside": 1}):
            if (extra and mode == "nearest") or ("exclude_outside" in extra and mode != "cubic"):
                continue
            attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, **more, **extra}
            model = _resize(build, x, scales, (), 19, **attributes)
            model.ir_version = 9
            session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            found = run(model, {"x": x})["y"]
            np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_nearest_in_opset_11_for_half_pixel_of_tensorflow(resized: Callable[..., np.ndarray]) -> None:
    mode = {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    y = resized(ramp(1, 1, 1, 4), [1, 1, 1, 0.5], opset=11, nearest_mode="floor", **mode)
    np.testing.assert_array_equal(y.reshape(-1), [1, 3])


@pytest.mark.parametrize(
    ("policy", "shape"), [("stretch", (7, 8)), ("not_larger", (4, 8)), ("not_smaller", (7, 14))]
)
def test_aspect_ratio_policies(resized: Callable[..., np.ndarray], policy: str, shape: Any) -> None:
    sizes = {"sizes": [8, 7], "axes": [3, 2], "keep_aspect_ratio_policy": policy}
    assert resized(ramp(1, 1, 2, 4), mode="linear", **sizes).shape == (1, 1, *shape)


def test_region_of_interest_with_extrapolation(resized: Callable[..., np.ndarray]) -> None:
    """Half of the region lies before the axis: two results are extrapolated, one is the first element."""
    mode = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = [0, 0, 0, -1, 1, 1, 1, 1]
    y = resized(ramp(1, 1, 1, 5), sizes=[1, 1, 1, 5], roi=roi, extrapolation_value=9.0, **mode)
    np.testing.assert_allclose(y.reshape(-1), [9, 9, 0, 2, 4])
    y = resized(ramp(1, 1, 1, 5), sizes=[1, 1, 1, 1], roi=[0, 0, 0, 0.5, 1, 1, 1, 1], **mode)
    np.testing.assert_allclose(y.reshape(-1), [3])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.float16, np.float64])
def test_element_types_stay_and_integers_are_limited(resized: Callable[..., np.ndarray], dtype: Any) -> None:
    """Cubic interpolation overshoots beside a step: integers end at their limits."""
    info: Any = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    low, high = (info.min, info.max) if info else (0, 100)
    x = np.array([low, low, high, high], dtype).reshape(1, 1, 1, 4)
    y = resized(x, [1, 1, 1, 3], mode="cubic")
    assert y.dtype == dtype
    if info:
        assert y.min() == low
        assert y.max() >= high - 1024
    else:
        assert y.min() < low


def test_a_whole_factor_repeats_without_a_table(build: Build) -> None:
    how: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    model = _resize(build, ramp(1, 2, 3, 4), [1, 1, 2, 2], (), 13, **how)
    operators = [node.op for node in read_bytes(model.SerializeToString()).entry.nodes]
    assert set(operators) == {"Reshape", "Expand"}


def test_resize_of_opset_10_is_asymmetric(build: Build, run: Run) -> None:
    node = onnx.helper.make_node("Resize", ["x", "s"], ["y"], mode="linear")
    scales = {"s": np.array([1, 1, 1, 2], np.float32)}
    y = run(build([node], {"x": ramp(1, 1, 1, 4)}, ["y"], scales, opset=10), {"x": ramp(1, 1, 1, 4)})["y"]
    np.testing.assert_allclose(y.reshape(-1), [0, 0.5, 1, 1.5, 2, 2.5, 3, 3])


@pytest.mark.parametrize(("mode", "row"), [("nearest", [0, 0, 1, 1]), ("linear", [0, 0.5, 1, 1])])
def test_upsample_with_scales_as_attribute_and_operand(build: Build, run: Run, mode: str, row: Any) -> None:
    x = {"x": ramp(1, 1, 1, 2)}
    old = onnx.helper.make_node("Upsample", ["x"], ["y"], mode=mode, scales=[1.0, 1.0, 1.0, 2.0])
    new = onnx.helper.make_node("Upsample", ["x", "s"], ["y"], mode=mode)
    scales = {"s": np.array([1, 1, 1, 2], np.float32)}
    for model in (build([old], x, ["y"], opset=7), build([new], x, ["y"], scales, opset=9)):
        np.testing.assert_allclose(run(model, x)["y"].reshape(-1), row)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"mode": "area"}, r"'mode' is 'area'.*node 'n'"),
        ({"mode": "nearest", "antialias": 1}, r"'antialias' needs the mode linear or cubic.*node 'n'"),
        ({"coordinate_transformation_mode": "corner"}, r"'corner', expected one of half_pixel"),
        ({"axes": [2, 2]}, r"node 'n' \(Resize\): axes \[2, 2\] name an axis twice"),
        ({"axes": [2]}, r"node 'n' \(Resize\): scales .* do not fit"),
        ({"coordinate_transformation_mode": "tf_crop_and_resize"}, r"region of interest has 0 numbers"),
    ],
)
def test_what_resize_refuses(
    resized: Callable[..., np.ndarray], attributes: dict[str, Any], message: str
) -> None:
    scales = [2.0, 2.0] if attributes.get("axes") == [2, 2] else [1.0, 1.0, 2.0, 2.0]
    with pytest.raises(ImportModelError, match=message):
        resized(ramp(1, 1, 2, 2), scales, **attributes)


def test_truth_values_are_not_interpolated(resized: Callable[..., np.ndarray]) -> None:
    with pytest.raises(ImportModelError, match="truth values cannot be interpolated"):
        resized(np.ones((1, 1, 2, 2), bool), [1, 1, 2, 2], mode="linear")
    assert resized(np.ones((1, 1, 2, 2), bool), [1, 1, 2, 2], mode="nearest").all()


def test_center_crop_pad_crops_and_pads_at_once(build: Build, run: Run) -> None:
    node = onnx.helper.make_node("CenterCropPad", ["x", "s"], ["y"], axes=[-1, 0])
    x = {"x": ramp(2, 4) + 1}
    y = run(build([node], x, ["y"], {"s": np.array([1, 5])}, opset=18), x)["y"]
    np.testing.assert_array_equal(y[:, 0], [0, 2, 6, 0, 0])


@pytest.mark.parametrize("align", [0, 1])
def test_affine_grid_of_the_identity_samples_the_image_itself(build: Build, run: Run, align: int) -> None:
    image, size = wave(1, 2, 3, 4), {"size": np.array([1, 2, 3, 4])}
    nodes = [
        onnx.helper.make_node("AffineGrid", ["theta", "size"], ["grid"], align_corners=align),
        onnx.helper.make_node("GridSample", ["x", "grid"], ["y"], align_corners=align),
    ]
    inputs = {"x": image, "theta": np.eye(2, 3, dtype=np.float32)[None]}
    np.testing.assert_allclose(
        run(build(nodes, inputs, ["y"], size, opset=20), inputs)["y"], image, atol=1e-6
    )


def test_max_unpool_puts_the_maxima_back(build: Build, run: Run) -> None:
    nodes = [
        onnx.helper.make_node("MaxPool", ["x"], ["m", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        onnx.helper.make_node("MaxUnpool", ["m", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    x = {"x": ramp(1, 2, 4, 4)}
    y = run(build(nodes, x, ["y"], opset=12), x)["y"]
    odd = (np.arange(4)[:, None] % 2 == 1) & (np.arange(4) % 2 == 1)
    np.testing.assert_array_equal(y, np.where(odd, x["x"], 0))
