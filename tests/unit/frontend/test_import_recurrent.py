"""Recurrent layers with every variant, against ONNX Runtime; a loop in NumPy where it has no say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tilewright.errors import ImportModelError

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
HIDDEN, STEPS, BATCH, FEATURES = 3, 5, 4, 2
LENS = np.array([5, 3, 1, 4], np.int32)

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]


def _normal(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _operands(op: str, count: int, given: str) -> dict[str, np.ndarray]:
    """Operands by name; given: letters of the optional ones (b, l: lengths, h, c, p: peepholes)."""
    gates = GATES[op] * HIDDEN
    operands = {
        "x": _normal(STEPS, BATCH, FEATURES, seed=1),
        "w": _normal(count, gates, FEATURES, seed=2),
        "r": _normal(count, gates, HIDDEN, seed=3),
    }
    optional = {
        "b": _normal(count, 2 * gates, seed=4),
        "l": LENS,
        "h": _normal(count, BATCH, HIDDEN, seed=5),
        "c": _normal(count, BATCH, HIDDEN, seed=6),
        "p": _normal(count, 3 * HIDDEN, seed=7),
    }
    return operands | {name: optional[name] for name in optional if name in given}


def _model(build: Build, op: str, operands: dict[str, np.ndarray], **attrs: Any) -> onnx.ModelProto:
    order = ["x", "w", "r", "b", "l", "h", *(("c", "p") if op == "LSTM" else ())]
    names = [name if name in operands else "" for name in order]
    results = ["y", "y_h", "y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, results, name="layer", hidden_size=HIDDEN, **attrs)
    constants = {name: operands[name] for name in operands if name != "x"}
    model = build([node], {"x": operands["x"]}, results, constants, opset=14)
    model.ir_version = 8
    return model


def _both(build: Build, run: Run, op: str, given: str, **attrs: Any) -> None:
    count = 2 if attrs.get("direction") == "bidirectional" else 1
    operands = _operands(op, count, given)
    model = _model(build, op, operands, **attrs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": operands["x"]})
    found = run(model, {"x": operands["x"]})
    for name, array in zip(found, expected, strict=True):
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=2e-6, err_msg=f"{op} {name}")


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("given", ["", "b", "bl", "blh", "h"])
@pytest.mark.parametrize("op", sorted(GATES))
def test_operands_and_directions(build: Build, run: Run, op: str, given: str, direction: str) -> None:
    _both(build, run, op, given, direction=direction)


@pytest.mark.parametrize("given", ["bl", ""])
@pytest.mark.parametrize("linear", [0, 1])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_case_rn1_gru_reset_variants(build: Build, run: Run, given: str, linear: int, direction: str) -> None:
    _both(build, run, "GRU", given, linear_before_reset=linear, direction=direction)


@pytest.mark.parametrize("given", ["p", "bp", "bhcp", "blhcp"])
def test_case_rn5_peepholes_with_omitted_operands(build: Build, run: Run, given: str) -> None:
    _both(build, run, "LSTM", given)
    _both(build, run, "LSTM", given, direction="bidirectional")


@pytest.mark.parametrize("clip", [0.3, 5.0])
@pytest.mark.parametrize("op", sorted(GATES))
def test_clip(build: Build, run: Run, op: str, clip: float) -> None:
    _both(build, run, op, "bh", clip=clip)


def test_coupled_gates(build: Build, run: Run) -> None:
    _both(build, run, "LSTM", "bhc", input_forget=1)


CUSTOM = [
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "ThresholdedRelu",
    "ScaledTanh",
    "HardSigmoid",
    "Elu",
    "Softsign",
    "Softplus",
]


@pytest.mark.parametrize("name", CUSTOM)
@pytest.mark.parametrize("op", ["RNN", "GRU"])
def test_activations(build: Build, run: Run, op: str, name: str) -> None:
    given = {"activation_alpha": [0.7] * FUNCTIONS[op], "activation_beta": [0.4] * FUNCTIONS[op]}
    # The clip keeps unbounded gates from growing without limit over the steps.
    _both(build, run, op, "b", activations=[name] * FUNCTIONS[op], clip=1.5, **given)


def test_activations_of_two_directions(build: Build, run: Run) -> None:
    names = ["HardSigmoid", "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu"]
    _both(
        build,
        run,
        "LSTM",
        "b",
        direction="bidirectional",
        activations=names,
        activation_alpha=[0.1, 0.3, 0.9],
    )


def test_case_rn3_reverse_keeps_the_order_of_steps(build: Build, run: Run) -> None:
    operands = _operands("RNN", 1, "")
    found = run(_model(build, "RNN", operands, direction="reverse"), {"x": operands["x"]})
    h = np.zeros((BATCH, HIDDEN), np.float32)
    for t in reversed(range(STEPS)):
        h = np.tanh(operands["x"][t] @ operands["w"][0].T + h @ operands["r"][0].T)
        np.testing.assert_allclose(found["y"][t, 0], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["y_h"][0], h, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", sorted(GATES))
def test_batch_first_layout(build: Build, run: Run, op: str) -> None:
    operands = _operands(op, 2, "blh")
    plain = run(_model(build, op, operands, direction="bidirectional"), {"x": operands["x"]})
    turned = {**operands, "x": operands["x"].swapaxes(0, 1), "h": operands["h"].swapaxes(0, 1)}
    model = _model(build, op, turned, direction="bidirectional", layout=1)
    found = run(model, {"x": np.ascontiguousarray(turned["x"])})
    np.testing.assert_array_equal(found["y"], plain["y"].transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(found["y_h"], plain["y_h"].swapaxes(0, 1))


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"activations": ["Sine"]}, "names 'sine'"),
        ({"activations": ["Tanh"] * 3}, "has 3 names"),
        ({"clip": -1.0}, "expected a positive"),
        ({"direction": "up"}, "'direction' is 'up'"),
        ({"layout": 2}, "'layout' is 2"),
    ],
)
def test_refusals(build: Build, run: Run, attrs: dict[str, Any], message: str) -> None:
    operands = _operands("RNN", 1, "")
    with pytest.raises(ImportModelError, match=message):
        run(_model(build, "RNN", operands, **attrs), {"x": operands["x"]})
