"""Normalisations, the softmax family and losses: public bug reports, and versions that differ."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]
One = Callable[..., np.ndarray]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_case_nm2_response_over_channels(one: One) -> None:
    x = f32(1, 2, 3, 4, 5).reshape(1, 5, 1, 1)
    y = one("LRN", {"x": x}, size=3, alpha=1.0, beta=1.0, bias=1.0)
    np.testing.assert_allclose(y.reshape(-1), [0.375, 0.352941, 0.28125, 0.226415, 0.340909], rtol=1e-5)


@pytest.mark.parametrize("size", [2, 4])
def test_response_with_an_even_size_reaches_further_behind(one: One, size: int) -> None:
    x = normal(2, 6, 3)
    y = one("LRN", {"x": x}, size=size, alpha=0.5, beta=0.75, bias=2.0)
    for c in range(6):
        window = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
        expected = x[:, c] / (2 + 0.5 / size * np.square(window).sum(axis=1)) ** 0.75
        np.testing.assert_allclose(y[:, c], expected, rtol=1e-5)


def test_case_nm4_layer_normalization_has_three_results(build: Build, run: Run) -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean", "inverse"], axis=1)
    constants = {"s": np.ones((2, 3), np.float32)}
    found = run(build([node], {"x": x}, ["y", "mean", "inverse"], constants), {"x": x})
    np.testing.assert_allclose(found["mean"], f32(2.5, 8.5).reshape(2, 1, 1))
    np.testing.assert_allclose(found["inverse"], np.full((2, 1, 1), 0.585539), rtol=1e-5)
    np.testing.assert_allclose(found["y"], (x - found["mean"]) * found["inverse"], rtol=1e-5)


def test_statistics_of_half_tensors_are_single(build: Build, run: Run) -> None:
    x = normal(2, 4).astype(np.float16)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean"])
    model = build([node], {"x": x}, ["y"], {"s": np.ones(4, np.float16)}, output_kind=TensorProto.FLOAT16)
    model.graph.output.append(helper.make_tensor_value_info("mean", TensorProto.FLOAT, None))
    found = run(model, {"x": x})
    assert found["mean"].dtype == np.float32
    np.testing.assert_allclose(found["mean"], x.astype(np.float32).mean(axis=1, keepdims=True), rtol=1e-6)


def test_case_nm5_lp_normalization(one: One) -> None:
    x = f32(1, 2, 3, 2, 4, 8).reshape(2, 3)
    np.testing.assert_allclose(
        one("LpNormalization", {"x": x}, axis=1, p=2)[0], [0.267261, 0.534522, 0.801784], rtol=1e-5
    )
    np.testing.assert_allclose(one("LpNormalization", {"x": -x}, axis=1, p=1)[0], -x[0] / 6, rtol=1e-6)
    assert not one("LpNormalization", {"x": 0 * x}, axis=1).any()


def test_group_normalization_scales_groups_before_opset_21(one: One) -> None:
    x, scale, bias = normal(2, 4, 3), normal(2, seed=1), normal(2, seed=2)
    old = one("GroupNormalization", {"x": x}, {"s": scale, "b": bias}, opset=18, num_groups=2)
    each = {"s": np.repeat(scale, 2), "b": np.repeat(bias, 2)}
    new = one("GroupNormalization", {"x": x}, each, opset=21, num_groups=2)
    np.testing.assert_allclose(old, new, rtol=1e-5, atol=1e-6)
    with pytest.raises(ImportModelError, match=r"expected \[2\]"):
        one("GroupNormalization", {"x": x}, each, opset=18, num_groups=2)


def _against_onnxruntime(model: onnx.ModelProto, x: np.ndarray, run: Run) -> None:
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = run(model, {"x": x})
    for array, expected in zip(found.values(), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        ("InstanceNormalization", [normal(3, seed=1), normal(3, seed=2)], {"epsilon": 0.01}),
        ("MeanVarianceNormalization", [], {}),
        ("MeanVarianceNormalization", [], {"axes": [1, 3]}),
        ("LRN", [], {"size": 3}),
        ("LayerNormalization", [normal(4, 5, seed=1), normal(4, 5, seed=2)], {"axis": -2}),
        ("BatchNormalization", [*(normal(3, seed=s) for s in (1, 2, 3)), np.abs(normal(3, seed=4))], {}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_against_onnxruntime(
    build: Build, run: Run, op: str, operands: list[np.ndarray], attrs: dict[str, Any]
) -> None:
    x = normal(2, 3, 4, 5)
    constants = {f"c{i}": a for i, a in enumerate(operands)}
    node = helper.make_node(op, ["x", *constants], ["y"], **attrs)
    _against_onnxruntime(build([node], {"x": x}, ["y"], constants), x, run)


STATISTICS = {
    "s": normal(3, seed=1),
    "b": normal(3, seed=2),
    "m": normal(3, seed=3),
    "v": np.abs(normal(3, seed=4)),
}


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4, 5)])
@pytest.mark.parametrize("opset", [9, 14, 15])
def test_batch_normalization_in_training(build: Build, run: Run, shape: tuple[int, ...], opset: int) -> None:
    x = normal(*shape)
    names = ["y", "mean", "var"] if opset > 13 else ["y", "mean", "var", "batch_mean", "batch_var"]
    attrs = {"training_mode": 1} if opset > 13 else {}
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], names, momentum=0.8, **attrs)
    found = run(build([node], {"x": x}, names, STATISTICS, opset=opset), {"x": x})
    axes = tuple(a for a in range(len(shape)) if a != 1)
    column = (1, 3, *(1 for _ in shape[2:]))
    mean, var = x.mean(axis=axes), x.var(axis=axes)
    scale = STATISTICS["s"] / np.sqrt(var + 1e-5)
    expected = (x - mean.reshape(column)) * scale.reshape(column) + STATISTICS["b"].reshape(column)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["mean"], 0.8 * STATISTICS["m"] + 0.2 * mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["var"], 0.8 * STATISTICS["v"] + 0.2 * var, rtol=1e-4, atol=1e-6)
    if opset < 14:
        np.testing.assert_allclose(found["batch_mean"], mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found["batch_var"], var, rtol=1e-4, atol=1e-6)


def test_batch_normalization_at_inference_ignores_the_batch(build: Build, run: Run) -> None:
    x = normal(2, 3, 4)
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], ["y"])
    found = run(build([node], {"x": x}, ["y"], STATISTICS, opset=9), {"x": x})["y"]
    parts = {name: a.reshape(3, 1) for name, a in STATISTICS.items()}
    expected = (x - parts["m"]) / np.sqrt(parts["v"] + 1e-5) * parts["s"] + parts["b"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_batch_normalization_without_spatial_has_a_scale_for_every_element(build: Build, run: Run) -> None:
    x = normal(4, 3, 2)
    constants = {name: np.abs(normal(3, 2, seed=seed)) for seed, name in enumerate("sbmv")}
    node = helper.make_node("BatchNormalization", ["x", *constants], ["y"], spatial=0)
    found = run(build([node], {"x": x}, ["y"], constants, opset=7), {"x": x})["y"]
    s, b, m, v = constants.values()
    np.testing.assert_allclose(found, (x - m) / np.sqrt(v + 1e-5) * s + b, rtol=1e-4, atol=1e-5)


def test_batch_normalization_of_several_types(build: Build, run: Run) -> None:
    x = normal(2, 3, 4).astype(np.float16)
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], ["y"])
    model = build([node], {"x": x}, ["y"], STATISTICS, opset=15, output_kind=TensorProto.FLOAT16)
    parts = {name: a.reshape(3, 1) for name, a in STATISTICS.items()}
    wide = (x.astype(np.float32) - parts["m"]) / np.sqrt(parts["v"] + 1e-5) * parts["s"] + parts["b"]
    np.testing.assert_allclose(run(model, {"x": x})["y"], wide.astype(np.float16), rtol=2e-3, atol=1e-3)


def test_results_of_training_need_training(build: Build, run: Run) -> None:
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], ["y", "mean"], name="bn")
    with pytest.raises(ImportModelError, match="only training has"):
        run(build([node], {"x": normal(2, 3)}, ["y", "mean"], STATISTICS, opset=15), {})


def test_case_sm1_softmax_flattens_before_opset_13(one: One) -> None:
    x = (np.arange(24) / 10).astype(np.float32).reshape(2, 3, 4)
    for axis, rows in ((1, (2, 12)), (0, (1, 24)), (2, (6, 4)), (-1, (6, 4))):
        flat = np.exp(x.reshape(rows))
        expected = (flat / flat.sum(axis=1, keepdims=True)).reshape(x.shape)
        np.testing.assert_allclose(one("Softmax", {"x": x}, opset=11, axis=axis), expected, rtol=1e-5)
        logs = one("LogSoftmax", {"x": x}, opset=11, axis=axis)
        np.testing.assert_allclose(logs, np.log(expected), rtol=1e-5)


def test_case_sm4_softmax_of_extremes(one: One) -> None:
    logits = f32(-249.87, -424.1, 378.1, -292.6).reshape(1, 4)
    np.testing.assert_array_equal(one("Softmax", {"x": logits}), [[0, 0, 1, 0]])
    half = np.array([[60000, 59990, 0]], np.float16)
    np.testing.assert_array_equal(
        one("Softmax", {"x": half}, output_kind=TensorProto.FLOAT16), [[0.5, 0.5, 0]]
    )
    rows = np.array([[-np.inf, -np.inf], [0, -np.inf]], np.float32)
    np.testing.assert_array_equal(one("Softmax", {"x": rows}), [[np.nan, np.nan], [1, 0]])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2, 2)])
def test_cross_entropy_and_its_log_probabilities(
    build: Build, run: Run, shape: tuple[int, ...], reduction: str
) -> None:
    x, weight = normal(*shape), np.abs(normal(3, seed=1))
    labels = np.random.default_rng(2).integers(0, 3, (shape[0], *shape[2:]))
    labels.flat[0] = -1
    node = helper.make_node(
        "SoftmaxCrossEntropyLoss", ["x", "t", "w"], ["y", "logs"], reduction=reduction, ignore_index=-1
    )
    model = build([node], {"x": x}, ["y", "logs"], {"t": labels, "w": weight})
    _against_onnxruntime(model, x, run)
