"""Faults of other engines on planes, each with the right value, through NumPy and generated code.

The names are those of the case log: CV convolution, CT transposed, PL pools, RS resize, PD pad, SH shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.errors import ImportModelError

Run = Callable[..., list[np.ndarray]]


def ramp(*shape: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + np.prod(shape), dtype=np.float32).reshape(shape)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def _model(
    op: str,
    x: np.ndarray,
    constants: Mapping[str, np.ndarray],
    opset: int,
    outputs: int,
    operands: list[str] | None,
    attributes: Mapping[str, Any],
) -> bytes:
    names = ["x", *constants] if operands is None else operands
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name="n", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    infos = [helper.make_tensor_value_info("x", kind, x.shape)]
    ends = [
        helper.make_tensor_value_info(name, kind if i == 0 else 7, None) for i, name in enumerate(results)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", infos, ends, tensors)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(op, x, constants, opset, outputs, operands, **attributes) -> results, equal on both ways."""

    def both(
        op: str,
        x: np.ndarray,
        constants: Mapping[str, np.ndarray] | None = None,
        opset: int = 17,
        outputs: int = 1,
        operands: list[str] | None = None,
        **attributes: Any,
    ) -> list[np.ndarray]:
        data = _model(op, x, constants or {}, opset, outputs, operands, attributes)
        found = tw.compile(data, threads=1, cache_dir=tmp_path).run({"x": x})
        meaning = tw.compile(data, target="numpy").run({"x": x})
        for name, array in meaning.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
        return [found[f"y{i}"] for i in range(outputs)]

    return both


@pytest.mark.parametrize(("pad", "row"), [("SAME_UPPER", [14, 18, 22, 12]), ("SAME_LOWER", [1, 3, 5, 7])])
def test_cv1_same_padding(run: Run, pad: str, row: list[int]) -> None:
    (y,) = run("Conv", ramp(1, 1, 4, 4, start=1), {"w": ones(1, 1, 2, 2)}, auto_pad=pad)
    np.testing.assert_array_equal(y[0, 0, 0], row)


def test_cv3_end_padding(run: Run) -> None:
    w = np.array([[[[1, 2], [3, 4]]]], np.float32)
    (y,) = run("Conv", ramp(1, 1, 4, 4, start=1), {"w": w}, pads=[0, 0, 1, 1])
    np.testing.assert_array_equal(y[0, 0, [0, 3]], [[44, 54, 64, 28], [41, 44, 47, 16]])


def test_cv5_negative_pads_are_refused(run: Run) -> None:
    with pytest.raises(ImportModelError, match=r"'pads' has negative values.*node 'n'"):
        run("Conv", ramp(1, 1, 5, 5), {"w": ones(1, 1, 3, 3)}, pads=[-1] * 4)


def test_cv6_dilation_with_stride(run: Run) -> None:
    window = {"dilations": [3, 3], "strides": [2, 2], "pads": [3] * 4}
    (y,) = run("Conv", ramp(1, 1, 8, 8), {"w": ones(1, 1, 3, 3)}, **window)
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y[0, 0, 0], [54, 62, 96, 66])


def test_cv8_depthwise_with_uneven_pads(run: Run) -> None:
    window = {"group": 4, "strides": [2, 2], "pads": [1, 1, 2, 2]}
    (y,) = run("Conv", ramp(1, 4, 8, 8), {"w": ones(4, 1, 5, 5)}, **window)
    assert y.shape == (1, 4, 4, 4)
    np.testing.assert_array_equal(y[0, 0, 0], [216, 300, 340, 216])


@pytest.mark.parametrize("pads", [None, [1, 1, 1, 1]])
def test_cv9_notset_means_nothing(run: Run, pads: list[int] | None) -> None:
    given = {} if pads is None else {"pads": pads}
    (plain,) = run("Conv", ramp(1, 1, 4, 4), {"w": ones(1, 1, 3, 3)}, **given)
    (spelt,) = run("Conv", ramp(1, 1, 4, 4), {"w": ones(1, 1, 3, 3)}, auto_pad="NOTSET", **given)
    np.testing.assert_array_equal(spelt, plain)


def test_cv10_same_with_a_stride_beyond_the_kernel(run: Run) -> None:
    """The shape is certain; of the two known values ours is the one without cropping."""
    (y,) = run("Conv", ramp(1, 1, 10, 4), {"w": ones(1, 1, 2, 2)}, auto_pad="SAME_UPPER", strides=[5, 2])
    np.testing.assert_array_equal(y[0, 0], [[10, 18], [90, 98]])


def test_ct1_output_padding(run: Run) -> None:
    window = {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}
    (y,) = run("ConvTranspose", ramp(1, 1, 3, 3), {"w": ones(1, 1, 3, 3)}, **window)
    assert y.shape == (1, 1, 6, 6)
    np.testing.assert_array_equal(y[0, 0, [0, 5]], [[0, 1, 1, 3, 2, 2], [6, 13, 7, 15, 8, 8]])


@pytest.mark.parametrize(("pad", "row"), [("SAME_UPPER", [1, 1, 3, 2]), ("SAME_LOWER", [1, 3, 2, 2])])
def test_ct3_same_padding(run: Run, pad: str, row: list[int]) -> None:
    x = ramp(1, 1, 2, 2, start=1)
    (y,) = run("ConvTranspose", x, {"w": ones(1, 1, 3, 3)}, strides=[2, 2], auto_pad=pad)
    assert y.shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(y[0, 0, 0], row)


def test_ct5_folded_batch_normalization_of_groups(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((1, 4, 3, 3)).astype(np.float32)
    tables = {"w": random.standard_normal((4, 2, 3, 3)).astype(np.float32)}
    for index, name in enumerate(("s", "b", "m", "v")):
        tables[name] = np.array([1, 2, 3, 4], np.float32) * (index + 1)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["c"], group=2, strides=[2, 2], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info("x", 1, x.shape)]
    ends = [helper.make_tensor_value_info("y", 1, None)]
    tensors = [numpy_helper.from_array(array, name) for name, array in tables.items()]
    graph = helper.make_graph(nodes, "g", infos, ends, tensors)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    folded = tw.compile(data, threads=1, cache_dir=tmp_path).run({"x": x})["y"]
    plain = tw.compile(data, threads=1, cache_dir=tmp_path, opt_level=0).run({"x": x})["y"]
    exact = tw.evaluate(data, {"x": x})["y"]
    np.testing.assert_allclose(folded, exact, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plain, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 18, 19, 22])
def test_pl1_ceil_mode_overhang_is_not_counted(run: Run, opset: int) -> None:
    window = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1, "count_include_pad": 1}
    (y,) = run("AveragePool", ramp(1, 1, 5, start=1), opset=opset, **window)
    np.testing.assert_array_equal(y[0, 0], [1.5, 3.5, 5.0])


def test_pl3_end_padding_is_counted(run: Run) -> None:
    window = {"kernel_shape": [5, 1], "auto_pad": "SAME_LOWER", "count_include_pad": 1}
    (y,) = run("AveragePool", ramp(1, 1, 6, 2), opset=19, **window)
    np.testing.assert_allclose(y[0, 0, :, 0], [1.2, 2.4, 4, 6, 5.6, 4.8], rtol=1e-6)


@pytest.mark.parametrize("opset", [12, 22])
def test_pl4_dilation_with_pads_and_indices(run: Run, opset: int) -> None:
    x = np.array([1, 9, 2, 8, 3, 7, 4, 6, 5], np.float32).reshape(1, 1, 9)
    window = {"kernel_shape": [2], "strides": [1], "pads": [1, 1], "dilations": [2]}
    y, places = run("MaxPool", x, opset=opset, outputs=2, **window)
    np.testing.assert_array_equal(y[0, 0], [9, 2, 9, 3, 8, 4, 7, 5, 6])
    np.testing.assert_array_equal(places[0, 0], [1, 2, 1, 4, 3, 6, 5, 8, 7])


@pytest.mark.parametrize(("order", "places"), [(0, [[5, 6, 7], [9, 10, 11]]), (1, [[4, 7, 10], [5, 8, 11]])])
def test_indices_in_both_storage_orders(run: Run, order: int, places: list[list[int]]) -> None:
    """Planes of 3 by 4 whose elements grow: each window's maximum is its last element."""
    window = {"kernel_shape": [2, 2], "storage_order": order}
    _, found = run("MaxPool", ramp(1, 2, 3, 4), outputs=2, **window)
    np.testing.assert_array_equal(found[0], [places, np.add(places, 12)])


def test_pl6_padding_is_minus_infinity(run: Run) -> None:
    (y,) = run("MaxPool", -ramp(1, 1, 5, start=1), kernel_shape=[3], pads=[1, 1], strides=[1])
    np.testing.assert_array_equal(y[0, 0], [-1, -1, -2, -3, -4])


@pytest.mark.parametrize("opset", [18, 22])
def test_pl7_lp_pool_drops_a_window_that_starts_in_the_padding(run: Run, opset: int) -> None:
    window = {"p": 2, "kernel_shape": [2, 2], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}
    (y,) = run("LpPool", ramp(1, 1, 5, 5), opset=opset, **window)
    assert y.shape == (1, 1, 3, 3)
    np.testing.assert_allclose(y[0, 0, 0], [0, 5**0.5, 5], rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("align_corners", np.arange(8) * 3 / 7),
        ("asymmetric", [0, 0.5, 1, 1.5, 2, 2.5, 3, 3]),
        ("half_pixel", [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]),
        ("pytorch_half_pixel", [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]),
    ],
)
def test_rs1_coordinates_of_linear_resize(run: Run, mode: str, row: Any) -> None:
    scales = {"s": np.array([1, 1, 1, 2], np.float32)}
    attributes = {"mode": "linear", "coordinate_transformation_mode": mode}
    (y,) = run("Resize", ramp(1, 1, 1, 4), scales, 13, operands=["x", "", "s"], **attributes)
    np.testing.assert_allclose(y.reshape(-1), row, rtol=1e-5, atol=1e-6)


def test_rs3_cubic_of_inner_axes(run: Run) -> None:
    x, operands = ramp(1, 2, 3, 2), ["x", "", "s"]
    (y,) = run("Resize", x, {"s": np.array([1, 2, 2, 1], np.float32)}, operands=operands, mode="cubic")
    assert y.shape == (1, 4, 6, 2)
    np.testing.assert_allclose(y.reshape(-1)[0], -0.84375, rtol=1e-5)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    (z,) = run("Resize", first, {"s": np.array([1, 1, 2, 2], np.float32)}, operands=operands, mode="cubic")
    np.testing.assert_allclose(y, z.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("a", "value"), [(-0.5, 23.375), (-0.75, 16.859375)])
def test_rs4_cubic_coefficient(run: Run, a: float, value: float) -> None:
    attributes = {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel", "cubic_coeff_a": a}
    scales = {"s": np.array([1, 1, 0.5, 0.5], np.float32)}
    (y,) = run("Resize", ramp(1, 1, 8, 8) ** 2, scales, operands=["x", "", "s"], **attributes)
    np.testing.assert_allclose(y.reshape(-1)[0], value, rtol=1e-5)


def test_pd1_reflect(run: Run) -> None:
    x = np.array([[1, 1.2], [2.3, 3.4], [4.5, 5.7]], np.float32)
    (y,) = run("Pad", x, {"p": np.array([0, 1, 0, 1])}, mode="reflect")
    np.testing.assert_allclose(y[0], [1.2, 1, 1.2, 1])


def test_pd2_reflect_beyond_the_axis_goes_on_reflecting(run: Run) -> None:
    x = np.array([[1, 1.2], [2.3, 3.4], [4.5, 5.7]], np.float32)
    (y,) = run("Pad", x, {"p": np.array([0, 2, 0, 0])}, mode="reflect")
    np.testing.assert_allclose(y[0], [1, 1.2, 1, 1.2])


@pytest.mark.parametrize(
    ("count", "mode", "pads", "wanted"),
    [
        (4, "constant", [-1, 2], [2, 3, 4, 0, 0]),
        (4, "edge", [-1, 2], [2, 3, 4, 4, 4]),
        (6, "reflect", [-2, 2], [3, 4, 5, 6, 5, 4]),
        (4, "reflect", [-3, 3], [4, 4, 4, 4]),
    ],
)
def test_pd4_negative_with_positive_pads(
    run: Run, count: int, mode: str, pads: list[int], wanted: list[int]
) -> None:
    (y,) = run("Pad", ramp(count, start=1), {"p": np.array(pads)}, mode=mode)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize(("mode", "step"), [("CRD", 4), ("DCR", 8)])
def test_sh9_depth_to_space(run: Run, mode: str, step: int) -> None:
    (y,) = run("DepthToSpace", ramp(1, 18, 2, 2), blocksize=3, mode=mode)
    np.testing.assert_array_equal(y[0, 0, :3, :3], (np.arange(9) * step).reshape(3, 3))


def test_sh10_space_to_depth(run: Run) -> None:
    (y,) = run("SpaceToDepth", ramp(1, 2, 4, 4), blocksize=2)
    np.testing.assert_array_equal(y[0, :, 0, 0], [0, 16, 1, 17, 4, 20, 5, 21])
