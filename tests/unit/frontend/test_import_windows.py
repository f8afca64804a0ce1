"""Convolutions and pools: padding in all its spellings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from tilewright.errors import ImportModelError

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]
One = Callable[..., np.ndarray]

X16 = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("auto_pad", "row"), [("SAME_UPPER", [14, 18, 22, 12]), ("SAME_LOWER", [1, 3, 5, 7])]
)
def test_same_padding_puts_the_odd_pixel_at_its_side(one: One, auto_pad: Any, row: Any) -> None:
    y = one("Conv", {"x": X16}, {"w": ones(1, 1, 2, 2)}, auto_pad=auto_pad)
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y[0, 0, 0], row)


def test_pads_only_at_the_end(one: One) -> None:
    w = np.array([[[[1, 2], [3, 4]]]], np.float32)
    y = one("Conv", {"x": X16}, {"w": w}, pads=[0, 0, 1, 1])
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y[0, 0, [0, 3]], [[44, 54, 64, 28], [41, 44, 47, 16]])


def test_negative_convolution_pads_are_refused_by_node_and_attribute(one: One) -> None:
    with pytest.raises(ImportModelError, match=r"'pads' has negative values.*node 'n'"):
        one("Conv", {"x": ramp(1, 1, 5, 5)}, {"w": ones(1, 1, 3, 3)}, pads=[-1] * 4)


def test_dilation_with_stride(one: One) -> None:
    y = one(
        "Conv",
        {"x": ramp(1, 1, 8, 8)},
        {"w": ones(1, 1, 3, 3)},
        dilations=[3, 3],
        strides=[2, 2],
        pads=[3] * 4,
    )
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y[0, 0, 0], [54, 62, 96, 66])


def test_depthwise_with_uneven_pads(one: One) -> None:
    y = one(
        "Conv",
        {"x": ramp(1, 4, 8, 8)},
        {"w": ones(4, 1, 5, 5)},
        group=4,
        strides=[2, 2],
        pads=[1, 1, 2, 2],
    )
    assert y.shape == (1, 4, 4, 4)
    np.testing.assert_array_equal(y[0, 0, 0], [216, 300, 340, 216])


@pytest.mark.parametrize("pads", [None, [1, 1, 1, 1]])
def test_notset_is_the_same_as_no_auto_pad(one: One, pads: Any) -> None:
    given = {} if pads is None else {"pads": pads}
    plain = one("Conv", {"x": X16}, {"w": ones(1, 1, 3, 3)}, **given)
    spelt = one("Conv", {"x": X16}, {"w": ones(1, 1, 3, 3)}, auto_pad="NOTSET", **given)
    assert plain.shape == (1, 1, 2, 2) if pads is None else (1, 1, 4, 4)
    np.testing.assert_array_equal(spelt, plain)


def test_same_with_a_stride_beyond_the_kernel_keeps_the_shape_and_does_not_pad(one: One) -> None:
    y = one("Conv", {"x": ramp(1, 1, 10, 4)}, {"w": ones(1, 1, 2, 2)}, auto_pad="SAME_UPPER", strides=[5, 2])
    np.testing.assert_array_equal(y[0, 0], [[10, 18], [90, 98]])


def test_one_and_three_dimensional_convolutions(one: One) -> None:
    line = one("Conv", {"x": ramp(1, 1, 5)}, {"w": ones(1, 1, 3)}, pads=[1, 1])
    np.testing.assert_array_equal(line[0, 0], [1, 3, 6, 9, 7])
    cube = one("Conv", {"x": ones(1, 1, 3, 3, 3)}, {"w": ones(1, 1, 2, 2, 2)}, auto_pad="VALID")
    np.testing.assert_array_equal(cube, np.full((1, 1, 2, 2, 2), 8, np.float32))


def test_kernel_shape_must_agree_with_the_weights(one: One) -> None:
    with pytest.raises(ImportModelError, match=r"node 'n' \(Conv\).*kernel_shape"):
        one("Conv", {"x": X16}, {"w": ones(1, 1, 3, 3)}, kernel_shape=[2, 2])


def test_channels_that_do_not_fit_name_the_node(one: One) -> None:
    with pytest.raises(ImportModelError, match="node 'n'"):
        one("Conv", {"x": X16}, {"w": ones(1, 3, 3, 3)})


def test_output_padding_of_a_transposed_convolution(one: One) -> None:
    y = one(
        "ConvTranspose",
        {"x": ramp(1, 1, 3, 3)},
        {"w": ones(1, 1, 3, 3)},
        strides=[2, 2],
        pads=[1] * 4,
        output_padding=[1, 1],
    )
    assert y.shape == (1, 1, 6, 6)
    np.testing.assert_array_equal(y[0, 0, [0, 5]], [[0, 1, 1, 3, 2, 2], [6, 13, 7, 15, 8, 8]])


@pytest.mark.parametrize(("auto_pad", "row"), [("SAME_UPPER", [1, 1, 3, 2]), ("SAME_LOWER", [1, 3, 2, 2])])
def test_same_padding_of_a_transposed_convolution(one: One, auto_pad: Any, row: Any) -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    y = one("ConvTranspose", {"x": x}, {"w": ones(1, 1, 3, 3)}, strides=[2, 2], auto_pad=auto_pad)
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y[0, 0, 0], row)


@pytest.mark.parametrize("opset", [11, 18, 19, 22])
def test_ceil_mode_overhang_is_not_in_the_divisor(one: One, opset: Any) -> None:
    y = one(
        "AveragePool",
        {"x": np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)},
        opset=opset,
        kernel_shape=[2],
        strides=[2],
        ceil_mode=1,
        count_include_pad=1,
    )
    np.testing.assert_array_equal(y[0, 0], [1.5, 3.5, 5.0])


def test_included_pads_always_divide_by_the_whole_window(one: One) -> None:
    y = one(
        "AveragePool",
        {"x": ramp(1, 1, 6, 2)},
        opset=19,
        kernel_shape=[5, 1],
        auto_pad="SAME_LOWER",
        count_include_pad=1,
    )
    np.testing.assert_allclose(y[0, 0, :, 0], [1.2, 2.4, 4, 6, 5.6, 4.8], rtol=1e-6)


def test_max_pool_pads_are_minus_infinity(one: One) -> None:
    x = -np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
    y = one("MaxPool", {"x": x}, kernel_shape=[3], pads=[1, 1])
    np.testing.assert_array_equal(y[0, 0], [-1, -1, -2, -3, -4])


def test_dilated_max_pool_with_pads(one: One) -> None:
    x = np.array([1, 9, 2, 8, 3, 7, 4, 6, 5], np.float32).reshape(1, 1, 9)
    y = one("MaxPool", {"x": x}, opset=12, kernel_shape=[2], pads=[1, 1], dilations=[2])
    np.testing.assert_array_equal(y[0, 0], [9, 2, 9, 3, 8, 4, 7, 5, 6])


@pytest.mark.parametrize("opset", [10, 17, 22])
def test_ceil_mode_drops_a_window_that_starts_in_the_end_padding(one: One, opset: Any) -> None:
    y = one(
        "MaxPool",
        {"x": ramp(1, 1, 5)},
        opset=opset,
        kernel_shape=[2],
        strides=[2],
        pads=[1, 1],
        ceil_mode=1,
    )
    np.testing.assert_array_equal(y[0, 0], [0, 2, 4])


def test_indices_of_max_pool_cost_nothing_when_unused(build: Build) -> None:
    from onnx import helper

    from tilewright.frontend.onnx_reader import read_bytes

    x = {"x": ramp(1, 1, 4)}
    asked = helper.make_node("MaxPool", ["x"], ["y", "i"], name="p", kernel_shape=[2])
    plain = helper.make_node("MaxPool", ["x"], ["y", ""], name="p", kernel_shape=[2])
    ops = [
        [node.op for node in read_bytes(build([node], x, ["y"]).SerializeToString()).entry.nodes]
        for node in (asked, plain)
    ]
    assert ops == [["MaxPool", "MaxPoolIndices"], ["MaxPool"]]
