"""Attention and its kin as ONNX writes them; the public suite has the many variants."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def attention(build: Build, run: Run, operands: dict[str, np.ndarray], **attrs: Any) -> dict[str, np.ndarray]:
    names = ["q", "k", "v", "mask", "past_k", "past_v", "lens"]
    given = [name if name in operands else "" for name in names]
    results = ["y", "keys", "values", "scores"]
    node = helper.make_node("Attention", given, results, name="a", **attrs)
    return run(build([node], operands, results, opset=25), operands)


def test_three_axes_are_split_into_heads(build: Build, run: Run) -> None:
    q, k, v = normal(2, 3, 8), normal(2, 5, 4, seed=1), normal(2, 5, 6, seed=2)
    found = attention(build, run, {"q": q, "k": k, "v": v}, q_num_heads=4, kv_num_heads=2)
    heads = [x.reshape(2, x.shape[1], n, -1).swapaxes(1, 2) for x, n in ((q, 4), (k, 2), (v, 2))]
    keys, values = (np.repeat(x, 2, axis=1) for x in heads[1:])
    weights = softmax(heads[0] @ keys.swapaxes(2, 3) / np.sqrt(2))
    expected = (weights @ values).swapaxes(1, 2).reshape(2, 3, 12)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found["keys"], heads[1])


def test_rows_without_a_key_are_zero(build: Build, run: Run) -> None:
    q, k, v = normal(1, 1, 3, 4), normal(1, 1, 5, 4, seed=1), normal(1, 1, 5, 2, seed=2)
    mask = np.ones((3, 5), bool)
    mask[1] = False
    found = attention(build, run, {"q": q, "k": k, "v": v, "mask": mask}, qk_matmul_output_mode=3)
    assert not found["y"][0, 0, 1].any()
    assert not found["scores"][0, 0, 1].any()
    np.testing.assert_allclose(found["scores"].sum(axis=-1), [[[1, 0, 1]]], rtol=1e-5)


@pytest.mark.parametrize(("left", "right"), [(-1, -1), (1, -1), (-1, 1), (1, 0)])
@pytest.mark.parametrize("causal", [0, 1])
def test_windows_and_causality_count_from_the_past(
    build: Build, run: Run, left: int, right: int, causal: int
) -> None:
    operands = {"q": normal(1, 1, 3, 4), "k": normal(1, 1, 3, 4, seed=1), "v": normal(1, 1, 3, 2, seed=2)}
    past = {"past_k": normal(1, 1, 2, 4, seed=3), "past_v": normal(1, 1, 2, 2, seed=4)}
    attrs = {"is_causal": causal, "left_window_size": left, "right_window_size": right}
    found = attention(build, run, operands | past, qk_matmul_output_mode=3, **attrs)
    position, key = np.arange(3)[:, None] + 2, np.arange(5)
    allowed = np.ones((3, 5), bool)
    if causal:
        allowed &= key <= position
    if left >= 0:
        allowed &= key >= position - left
    if right >= 0:
        allowed &= key <= position + right
    np.testing.assert_array_equal(found["scores"][0, 0] > 0, allowed)


@pytest.mark.parametrize(
    ("drop", "extra", "attrs", "message"),
    [
        ((), {"past_k": normal(1, 2, 1, 4)}, {}, "given together"),
        ((), {}, {"qk_matmul_output_mode": 4}, "expected 0, 1, 2 or 3"),
        ((), {}, {"left_window_size": -2}, "at least -1"),
        ((), {"mask": normal(7, 5)}, {}, "broadcast"),
        (("q",), {"q": normal(1, 3, 3, 4)}, {}, "do not fit"),
    ],
)
def test_refusals(
    build: Build, run: Run, drop: tuple[str, ...], extra: dict[str, Any], attrs: dict[str, Any], message: str
) -> None:
    operands = {"q": normal(1, 2, 3, 4), "k": normal(1, 2, 5, 4), "v": normal(1, 2, 5, 4)}
    kept = {name: a for name, a in operands.items() if name not in drop}
    with pytest.raises(ImportModelError, match=message):
        attention(build, run, kept | extra, **attrs)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 4])
def test_rotary_embedding_turns_pairs(build: Build, run: Run, interleaved: int, turned: int) -> None:
    width = turned or 6
    x, angles = normal(2, 3, 4, 6), normal(9, width // 2, seed=1)
    positions = np.array([[0, 3, 1, 8], [2, 2, 5, 7]])
    operands = {"x": x, "c": np.cos(angles), "s": np.sin(angles), "p": positions}
    attrs = {"interleaved": interleaved, "rotary_embedding_dim": turned}
    node = helper.make_node("RotaryEmbedding", list(operands), ["y"], **attrs)
    found = run(build([node], operands, ["y"], opset=23), operands)["y"]
    first = slice(0, width, 2) if interleaved else slice(0, width // 2)
    second = slice(1, width, 2) if interleaved else slice(width // 2, width)
    turn = np.exp(1j * angles[positions])[:, None]
    rotated = (x[..., first] + 1j * x[..., second]) * turn
    np.testing.assert_allclose(found[..., first], rotated.real, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[..., second], rotated.imag, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[..., width:], x[..., width:])


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_causal_convolution_in_two_parts_is_one(build: Build, run: Run, length: int, activation: str) -> None:
    x, w, b = normal(2, 3, 7), normal(3, 1, 4, seed=1), normal(3, seed=2)

    def convolve(part: np.ndarray, state: np.ndarray | None) -> dict[str, np.ndarray]:
        operands = {"x": np.ascontiguousarray(part), **({} if state is None else {"past": state})}
        names = ["x", "w", "b", "past" if state is not None else ""]
        node = helper.make_node("CausalConvWithState", names, ["y", "state"], activation=activation)
        return run(build([node], operands, ["y", "state"], {"w": w, "b": b}, opset=27), operands)

    whole = convolve(x, None)
    before = convolve(x[..., :length], None)
    after = convolve(x[..., length:], before["state"])
    joined = np.concatenate([before["y"], after["y"]], axis=2)
    np.testing.assert_allclose(joined, whole["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(after["state"], whole["state"])


def _flex(build: Build, version: int = 1) -> onnx.ModelProto:
    """FlexAttention whose scores are doubled by a sub-graph."""
    kind = TensorProto.FLOAT
    scores = helper.make_tensor_value_info("scores", kind, None)
    twice = helper.make_tensor_value_info("twice", kind, None)
    add = helper.make_node("Add", ["scores", "scores"], ["twice"])
    graph = helper.make_graph([add], "double", [scores], [twice])
    node = helper.make_node(
        "FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", scale=0.5, score_mod=graph
    )
    operands = {"q": normal(1, 2, 3, 4), "k": normal(1, 2, 5, 4, seed=1), "v": normal(1, 2, 5, 4, seed=2)}
    model = build([node], operands, ["y"], opset=26)
    model.opset_import.append(helper.make_opsetid("ai.onnx.preview", version))
    return model


def test_flex_attention_modifies_scores(build: Build, run: Run) -> None:
    q, k, v = normal(1, 2, 3, 4), normal(1, 2, 5, 4, seed=1), normal(1, 2, 5, 4, seed=2)
    found = run(_flex(build), {"q": q, "k": k, "v": v})["y"]
    np.testing.assert_allclose(found, softmax(q @ k.swapaxes(2, 3)) @ v, rtol=1e-4, atol=1e-6)


def test_a_preview_of_another_version_is_refused(build: Build, run: Run) -> None:
    with pytest.raises(ImportModelError, match=r"version 2 of ai\.onnx\.preview"):
        run(_flex(build, version=2), {})
