"""Fourier transforms, windows and mel weights as ONNX writes them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]
One = Callable[..., np.ndarray]


def i64(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_the_axis_was_an_attribute_before_opset_20(one: One) -> None:
    x = normal(2, 6, 5, 1)
    expected = np.fft.fft(x[..., 0], axis=2)
    old = one("DFT", {"x": x}, opset=17, axis=2)
    new = one("DFT", {"x": x}, {"n": None, "axis": i64(-2)}, opset=20)
    for found in (old, new, one("DFT", {"x": x}, opset=20)):
        np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-5)
    assert one("DFT", {"x": x}, opset=17).shape == (2, 6, 5, 2)
    first = one("DFT", {"x": x}, opset=17)
    np.testing.assert_allclose(first[..., 0], np.fft.fft(x[..., 0], axis=1).real, rtol=1e-4, atol=1e-5)


def test_half_spectrum_and_back(one: One) -> None:
    x = normal(3, 10, 1)
    half = one("DFT", {"x": x}, {"n": i64(10)}, opset=20, onesided=1)
    assert half.shape == (3, 6, 2)
    back = one("DFT", {"x": half}, opset=20, onesided=1, inverse=1)
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-5)


def test_a_length_with_a_large_prime_factor_is_refused(one: One) -> None:
    with pytest.raises(ImportModelError, match="prime factor beyond 2048"):
        one("DFT", {"x": normal(1, 4, 1)}, {"n": i64(2053)}, opset=20)
    with pytest.raises(ImportModelError, match="real and imaginary"):
        one("DFT", {"x": normal(1, 4, 1)}, {"n": None, "axis": i64(2)}, opset=20)


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("onesided", [0, 1])
def test_short_time_transform(one: One, window: bool, onesided: int) -> None:
    x, weights = normal(2, 20, 1), np.hanning(8).astype(np.float32)
    parts = {"w": weights if window else None, "n": i64(8)}
    found = one("STFT", {"x": x}, {"step": i64(3), **parts}, onesided=onesided)
    frames = np.stack([x[:, start : start + 8, 0] for start in range(0, 13, 3)], axis=1)
    expected = np.fft.fft(frames * weights if window else frames, axis=2)
    expected = expected[..., :5] if onesided else expected
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-5)


def test_frames_that_do_not_fit_are_refused(one: One) -> None:
    for step, length in ((0, 4), (2, 21), (2, 0)):
        with pytest.raises(ImportModelError, match="do not fit"):
            one("STFT", {"x": normal(1, 20, 1)}, {"step": i64(step), "w": None, "n": i64(length)})


@pytest.mark.parametrize(
    ("op", "shape"),
    [("HannWindow", np.hanning), ("BlackmanWindow", np.blackman)],
)
def test_windows(build: Build, run: Run, op: str, shape: Callable[[int], np.ndarray]) -> None:
    for size in (1, 2, 7, 8):
        for periodic in (0, 1):
            node = helper.make_node(op, ["n"], ["y"], periodic=periodic)
            found = run(build([node], {}, ["y"], {"n": i64(size)}), {})["y"]
            np.testing.assert_allclose(found, shape(size + periodic)[:size], atol=1e-6)


def test_hamming_window_and_element_types(build: Build, run: Run) -> None:
    node = helper.make_node("HammingWindow", ["n"], ["y"], periodic=0, output_datatype=TensorProto.DOUBLE)
    model = build([node], {}, ["y"], {"n": i64(9)}, output_kind=TensorProto.DOUBLE)
    alpha = 25 / 46
    expected = alpha - (1 - alpha) * np.cos(2 * np.pi * np.arange(9) / 8)
    np.testing.assert_allclose(run(model, {})["y"], expected, rtol=1e-12)


def _mel(bands: int, length: int, rate: int, low: float, high: float) -> np.ndarray:
    """The triangles, written out one by one."""
    scale = 2595 / np.log(10)
    ends = scale * np.log1p(np.array([low, high]) / 700)
    mels = ends[0] + np.arange(bands + 2) * (ends[1] - ends[0]) / (bands + 2)
    edges = ((length + 1) * 700 * np.expm1(mels / scale) // rate).astype(int)
    weights = np.zeros((length // 2 + 1, bands))
    for band in range(bands):
        left, centre, right = edges[band : band + 3]
        for bin in range(left, centre + 1):
            weights[bin, band] = 1 if left == centre else (bin - left) / (centre - left)
        for bin in range(centre, right):
            weights[bin, band] = (right - bin) / (right - centre)
    return weights


@pytest.mark.parametrize(
    ("bands", "length", "rate", "low", "high"), [(8, 16, 8192, 0, 4096), (20, 512, 16000, 20, 7600)]
)
def test_mel_weights_of_edges_known_at_run_time(
    build: Build, run: Run, bands: int, length: int, rate: int, low: float, high: float
) -> None:
    inputs: dict[str, Any] = {
        "rate": i64(rate),
        "low": np.array(low, np.float32),
        "high": np.array(high, np.float32),
    }
    node = helper.make_node("MelWeightMatrix", ["bands", "length", *inputs], ["y"])
    model = build([node], inputs, ["y"], {"bands": i64(bands), "length": i64(length)})
    found = run(model, inputs)["y"]
    np.testing.assert_allclose(found, _mel(bands, length, rate, low, high), rtol=1e-5, atol=1e-6)
