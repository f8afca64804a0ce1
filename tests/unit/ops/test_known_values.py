"""Right values of faults that were reported against other engines, found by hand or by two oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.ops.all  # noqa: F401
from tilewright import dtypes
from tilewright.dtypes import DType
from tilewright.errors import RunError
from tilewright.ops.operator import REGISTRY
from tilewright.tensor.evaluate import evaluate_tensors
from tilewright.tensor.ir import placeholder
from tilewright.types import TensorType


def results(op: str, *operands: Any, **attrs: Any) -> list[np.ndarray]:
    """NumPy meaning; where there is an expression it must give the same."""
    arrays = [a if a is None else np.asarray(a) for a in operands]
    operator = REGISTRY[op]
    expected = operator.evaluate(arrays, attrs)
    if operator.compute is None:
        return list(expected)
    types = [None if a is None else TensorType(DType.of(a.dtype), a.shape) for a in arrays]
    names = [f"x{i}" for i in range(len(arrays))]
    tensors = [
        None if t is None else placeholder(t.shape, t.dtype, n) for t, n in zip(types, names, strict=True)
    ]
    computed = operator.compute(tensors, attrs, operator.infer(types, attrs))
    feeds = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    for a, b in zip(evaluate_tensors(computed, feeds), expected, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), 1e-5, 1e-6)
    return list(expected)


def row(array: np.ndarray, index: int = 0) -> list[float]:
    rows = array.reshape(-1, array.shape[-1])
    return [round(float(v), 6) for v in rows[index]]


def ramp(start: int, stop: int, *shape: int) -> np.ndarray:
    return np.arange(start, stop, dtype=np.float32).reshape(shape)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_convolution_with_padding_at_one_side() -> None:
    x, w = ramp(1, 17, 1, 1, 4, 4), ones(1, 1, 2, 2)
    assert row(results("Conv", x, w, pads=(0, 0, 1, 1))[0]) == [14, 18, 22, 12]
    assert row(results("Conv", x, w, pads=(1, 1, 0, 0))[0]) == [1, 3, 5, 7]


def test_convolution_reads_all_four_pads() -> None:
    w = np.array([[[[1, 2], [3, 4]]]], np.float32)
    y = results("Conv", ramp(1, 17, 1, 1, 4, 4), w, pads=(0, 0, 1, 1))[0]
    assert y.shape == (1, 1, 4, 4)
    assert row(y) == [44, 54, 64, 28]
    assert row(y, 3) == [41, 44, 47, 16]


def test_convolution_with_dilation_and_stride() -> None:
    attrs = {"dilations": (3, 3), "strides": (2, 2), "pads": (3, 3, 3, 3)}
    y = results("Conv", ramp(0, 64, 1, 1, 8, 8), ones(1, 1, 3, 3), **attrs)[0]
    assert y.shape == (1, 1, 4, 4)
    assert row(y) == [54, 62, 96, 66]


def test_depthwise_convolution_with_uneven_padding() -> None:
    attrs = {"group": 4, "strides": (2, 2), "pads": (1, 1, 2, 2)}
    y = results("Conv", ramp(0, 256, 1, 4, 8, 8), ones(4, 1, 5, 5), **attrs)[0]
    assert y.shape == (1, 4, 4, 4)
    assert row(y) == [216, 300, 340, 216]


def test_output_padding_of_a_transposed_convolution() -> None:
    attrs = {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}
    y = results("ConvTranspose", ramp(0, 9, 1, 1, 3, 3), ones(1, 1, 3, 3), **attrs)[0]
    assert row(y) == [0, 1, 1, 3, 2, 2]
    assert row(y, 5) == [6, 13, 7, 15, 8, 8]


def test_transposed_convolution_cropped_at_one_side() -> None:
    x, w = ramp(1, 5, 1, 1, 2, 2), ones(1, 1, 3, 3)
    assert row(results("ConvTranspose", x, w, strides=(2, 2), pads=(0, 0, 1, 1))[0]) == [1, 1, 3, 2]
    assert row(results("ConvTranspose", x, w, strides=(2, 2), pads=(1, 1, 0, 0))[0]) == [1, 3, 2, 2]


def test_overhang_of_ceil_mode_is_not_counted() -> None:
    attrs = {"kernel_shape": (2,), "strides": (2,), "ceil_mode": 1, "count_include_pad": 1}
    assert row(results("AveragePool", ramp(1, 6, 1, 1, 5), **attrs)[0]) == [1.5, 3.5, 5]


def test_end_padding_counts_in_the_divisor() -> None:
    attrs = {"kernel_shape": (5, 1), "pads": (2, 0, 2, 0), "count_include_pad": 1}
    y = results("AveragePool", ramp(0, 12, 1, 1, 6, 2), **attrs)[0]
    np.testing.assert_allclose(y[0, 0, :, 0], [1.2, 2.4, 4, 6, 5.6, 4.8], rtol=1e-6)


def test_dilated_pool_with_padding() -> None:
    x = np.array([1, 9, 2, 8, 3, 7, 4, 6, 5], np.float32).reshape(1, 1, 9)
    y = results("MaxPool", x, kernel_shape=(2,), dilations=(2,), pads=(1, 1))[0]
    assert row(y) == [9, 2, 9, 3, 8, 4, 7, 5, 6]


def test_padding_never_wins_a_maximum() -> None:
    x = -ramp(1, 6, 1, 1, 5)
    assert row(results("MaxPool", x, kernel_shape=(3,), pads=(1, 1))[0]) == [-1, -1, -2, -3, -4]


def test_window_that_starts_in_the_end_padding_is_dropped() -> None:
    attrs = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (1, 1, 1, 1), "ceil_mode": 1}
    y = results("MaxPool", ramp(0, 25, 1, 1, 5, 5), **attrs)[0]
    assert y.shape == (1, 1, 3, 3)
    assert row(y) == [0, 2, 4]


def test_negative_indices_of_gather() -> None:
    y = results("Gather", ramp(0, 12, 3, 4), np.asarray(-1), axis=1)[0]
    assert y.tolist() == [3, 7, 11]


def test_index_outside_is_an_error() -> None:
    for index in (3, -4):
        with pytest.raises(RunError, match=f"index {index} is outside axis 0"):
            REGISTRY["Gather"].evaluate([ramp(0, 6, 3, 2), np.array([index])], {"axis": 0})


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (9, 0, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (9, 0, -3, [9, 6, 3]),
        (7, -1, -2, [7, 5, 3, 1]),
        (9, -1, -1, list(range(9, -1, -1))),
    ],
)
def test_slice_counts_down(start: int, end: int, step: int, expected: list[int]) -> None:
    attrs = {"starts": (start,), "ends": (end,), "axes": (0,), "steps": (step,)}
    assert results("Slice", np.arange(10), **attrs)[0].tolist() == expected


def test_reflection() -> None:
    x = np.array([[1, 1.2], [2.3, 3.4], [4.5, 5.7]], np.float32)
    y = results("Pad", x, None, pads=(0, 1, 0, 1), mode="reflect")[0]
    assert row(y) == [1.2, 1, 1.2, 1]
    assert row(results("Pad", x, None, pads=(0, 2, 0, 0), mode="reflect")[0]) == [1, 1.2, 1, 1.2]


def test_negative_pads_crop_first() -> None:
    x = ramp(1, 5, 4)
    assert results("Pad", x, None, pads=(-1, 2))[0].tolist() == [2, 3, 4, 0, 0]
    assert results("Pad", x, None, pads=(-1, 2), mode="edge")[0].tolist() == [2, 3, 4, 4, 4]
    y = results("Pad", ramp(1, 7, 6), None, pads=(-2, 2), mode="reflect")[0]
    assert y.tolist() == [3, 4, 5, 6, 5, 4]
    y = results("Pad", ramp(0, 5, 5), None, pads=(-4, 4), mode="reflect")[0]
    assert y.tolist() == [4] * 5


def test_softmax_of_large_logits() -> None:
    logits = np.array([-249.87, -424.1, 378.1, -292.6], np.float32)
    assert results("Softmax", logits, axis=0)[0].tolist() == [0, 0, 1, 0]
    half = np.array([60000, 59990, 0], np.float16)
    assert results("Softmax", half, axis=0)[0].tolist() == [0.5, 0.5, 0]
    rows = np.array([[-np.inf, -np.inf], [0, -np.inf]], np.float32)
    y = results("Softmax", rows, axis=1)[0]
    assert np.isnan(y[0]).all()
    assert y[1].tolist() == [1, 0]


def test_softmax_over_one_axis() -> None:
    y = results("Softmax", ramp(0, 24, 2, 3, 4) / 10, axis=1)[0]
    assert float(y.sum()) == pytest.approx(8)
    assert float(y[0, 0, 0]) == pytest.approx(0.21198, abs=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 1), (1, 4)])
def test_gemm_broadcasts_c(shape: tuple[int, ...]) -> None:
    attrs = {"alpha": 0.5, "beta": 2.0, "transB": 1}
    a, b = ramp(0, 6, 2, 3), ramp(0, 12, 4, 3)
    y = results("Gemm", a, b, np.full(shape, 5, np.float32), **attrs)[0]
    assert row(y) == [12.5, 17, 21.5, 26]


def test_gemm_with_a_column_and_without_beta() -> None:
    a, b = ramp(0, 6, 2, 3), ramp(0, 12, 4, 3)
    column = np.array([[1], [2]], np.float32)
    assert row(results("Gemm", a, b, column, alpha=0.5, beta=2.0, transB=1)[0], 1) == [11, 29, 47, 65]
    ignored = np.full((4,), np.nan, np.float32)
    assert np.isfinite(results("Gemm", a, b, ignored, beta=0.0, transB=1)[0]).all()


@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        ((3,), (3,), ()),
        ((3,), (3, 2), (2,)),
        ((2, 3), (3,), (2,)),
        ((2, 1, 2, 3), (4, 3, 2), (2, 4, 2, 2)),
        ((3,), (4, 3, 2), (4, 2)),
        ((0, 2), (2,), (0,)),
        ((2, 0), (0, 3), (2, 3)),
    ],
)
def test_matmul_shapes(left: tuple[int, ...], right: tuple[int, ...], shape: tuple[int, ...]) -> None:
    y = results("MatMul", ones(*left), ones(*right))[0]
    assert y.shape == shape
    assert (y == left[-1]).all()


def test_nothing_is_reduced_without_axes() -> None:
    x = ramp(1, 5, 2, 2)
    for op in ("ReduceMean", "ReduceSum", "ReduceMax"):
        assert results(op, x, axes=(), keepdims=False)[0].tolist() == x.tolist()


def test_long_half_means_do_not_overflow() -> None:
    y = results("ReduceMean", np.full(4000, 1000, np.float16), axes=(0,), keepdims=False)[0]
    assert y == 1000
    assert y.dtype == np.float16


def test_the_upper_bound_of_clip_wins() -> None:
    x, low, high = (np.asarray(v, np.float32) for v in ([-2, 0, 6], 2, 1))
    assert results("Clip", x, low, high)[0].tolist() == [1, 1, 1]


def test_integer_division_truncates() -> None:
    y = results("Div", np.array([8, -8, 7, -7]), np.array([-3, 3, -2, 2]))[0]
    assert y.tolist() == [-2, -2, -3, -3]


def test_chained_casts_keep_zero_and_one() -> None:
    truth = results("Cast", np.array([-1, 0, 2]), to=dtypes.BOOL)[0]
    assert results("Cast", truth, to=dtypes.I32)[0].tolist() == [1, 0, 1]


def test_integers_wrap_when_narrowed() -> None:
    assert results("Cast", np.array([300, -1, 256], np.int32), to=dtypes.U8)[0].tolist() == [44, 255, 0]


def test_halves_round_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997], np.float32)
    assert results("Round", x)[0].tolist() == [0, 2, 2, 0, -2, -2, 0]


def test_casts_to_half_types_round() -> None:
    x = np.array([0.333333343, 1.00390625, 1.01171875, 3.4e38, np.nan], np.float32)
    y = results("Cast", results("Cast", x, to=dtypes.BF16)[0], to=dtypes.F32)[0]
    np.testing.assert_allclose(y, [0.333984375, 1, 1.015625, np.inf, np.nan], rtol=1e-6)
    x = np.array([65504, 65519, 65520, 1e-8, 2049], np.float32)
    y = results("Cast", results("Cast", x, to=dtypes.F16)[0], to=dtypes.F32)[0]
    assert y.tolist() == [65504, 65504, np.inf, 0, 2048]


def test_nan_is_handed_on_from_either_side() -> None:
    a, b = np.array([np.nan, 1, np.nan], np.float32), np.array([1, np.nan, np.nan], np.float32)
    column, ten = np.array([[np.nan], [2], [20]], np.float32), np.array([10], np.float32)
    for op, expected in (("Max", [10, 20]), ("Min", [2, 10])):
        assert np.isnan(results(op, a, b)[0]).all()
        y = results(op, column, ten)[0].reshape(-1)
        assert np.isnan(y[0])
        assert y[1:].tolist() == expected


def test_softplus_and_sigmoid_do_not_overflow() -> None:
    x = np.array([5, 12, 88, 1000, -1000], np.float32)
    np.testing.assert_allclose(results("Softplus", x)[0], [5.0067153, 12.000006, 88, 1000, 0], rtol=1e-6)
    half = results("Softplus", np.array([5, 12, 88, 1000], np.float16))[0]
    assert half.tolist() == [np.float16(5.0067), 12, 88, 1000]
    x = np.array([-1000, 1000, np.inf], np.float32)
    assert results("Sigmoid", x)[0].tolist() == [0, 1, 1]


def test_small_softplus_keeps_its_digits() -> None:
    x = np.array([-20.0, -30.0], np.float32)
    np.testing.assert_allclose(results("Softplus", x)[0], np.log1p(np.exp(x.astype(np.float64))), rtol=1e-5)


def test_broadcast_along_the_last_axis() -> None:
    y = results("Add", np.zeros((5, 2), np.float32), np.array([0, 1], np.float32))[0]
    assert y.tolist() == [[0, 1]] * 5


def test_empty_parts_and_extents() -> None:
    assert results("Concat", ramp(0, 0, 0), ramp(1, 3, 2), axis=0)[0].tolist() == [1, 2]
    assert results("Concat", ones(4, 0), ones(3, 0), axis=0)[0].shape == (7, 0)
    assert results("Add", ones(1), ones(0))[0].shape == (0,)
    assert results("Expand", ones(3, 1), shape=(2, 1, 4))[0].shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("mode", "corner"),
    [("CRD", [[0, 4, 8], [12, 16, 20], [24, 28, 32]]), ("DCR", [[0, 8, 16], [24, 32, 40], [48, 56, 64]])],
)
def test_depth_to_space_in_blocks_of_three(mode: str, corner: list[list[int]]) -> None:
    y = results("DepthToSpace", ramp(0, 72, 1, 18, 2, 2), blocksize=3, mode=mode)[0]
    assert y[0, 0, :3, :3].tolist() == corner
