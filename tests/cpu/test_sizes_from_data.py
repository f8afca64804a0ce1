"""Models whose sizes depend on data: two inputs with other counts through one executable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import tilewright as tw
from tilewright.errors import ImportModelError

ENGINES = (("numpy", 3), ("cpu", 0), ("cpu", 3))


def model(text: str, opset: int = 17) -> bytes:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(head + text).SerializeToString()


def check(text: str, runs: list[Mapping[str, np.ndarray]], tmp_path: Path) -> None:
    """All engines against ONNX Runtime, each compiled once for all runs."""
    data = model(text)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = [session.run(names, dict(inputs)) for inputs in runs]
    assert len({tuple(a.shape for a in arrays) for arrays in expected}) > 1, "the counts should differ"
    for target, level in ENGINES:
        engine = tw.compile(
            data, target=target, opt_level=level, cache_dir=tmp_path, verify_each=True, threads=1
        )
        for inputs, arrays in zip(runs, expected, strict=True):
            found = engine.run(inputs)
            for name, wanted in zip(names, arrays, strict=True):
                assert found[name].dtype == wanted.dtype
                assert found[name].shape == wanted.shape
                np.testing.assert_allclose(found[name], wanted, rtol=1e-5)


def mask(*rows: str) -> np.ndarray:
    return np.array([[mark == "x" for mark in row] for row in rows])


def test_elements_that_a_mask_selects(tmp_path: Path) -> None:
    text = """
    g (bool[3,4] m, float[3,4] x) => (float[n] picked, int64[n,2] places, float[n] scaled, int64[1] count) {
      found = NonZero(m)
      places = Transpose(found)
      picked = GatherND(x, places)
      two = Constant <value = float {2}> ()
      doubled = Mul(picked, two)
      scaled = Tanh(doubled)
      count = Shape(picked)
    }"""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    masks = (mask("x..x", "....", ".xx."), mask("....", "....", "...."), mask("xxxx", "xxxx", "xxxx"))
    check(text, [{"m": m, "x": x} for m in masks], tmp_path)


def test_boxes_that_survive(tmp_path: Path) -> None:
    """What detectors do with the indices: a column of them gathers boxes and scores."""
    text = """
    g (float[1,6,4] boxes, float[1,2,6] scores) => (float[n,4] kept, float[n] best, int32[n] classes) {
      most = Constant <value_ints = [3]> ()
      overlap = Constant <value = float {0.5}> ()
      least = Constant <value = float {0.2}> ()
      selected = NonMaxSuppression(boxes, scores, most, overlap, least)
      two = Constant <value_ints = [2]> () one = Constant <value_ints = [1]> ()
      three = Constant <value_ints = [3]> ()
      column = Slice(selected, two, three, one)
      at = Squeeze(column, one)
      c1 = Constant <value_int = 1> ()
      labels = Gather <axis = 1> (selected, c1)
      classes = Cast <to = 6> (labels)
      zero = Constant <value_ints = [0]> ()
      all = Squeeze(boxes, zero)
      kept = Gather <axis = 0> (all, at)
      pairs = GatherND(scores, selected)
      sums = Unsqueeze(pairs, one)
      flat = Constant <value_ints = [-1]> ()
      best = Reshape(sums, flat)
    }"""
    rng = np.random.default_rng(3)
    runs = []
    for spread in (1.0, 8.0):
        corner = rng.uniform(0, spread, (1, 6, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(0.5, 1, (1, 6, 2))], 2).astype(np.float32)
        runs.append({"boxes": boxes, "scores": rng.uniform(0, 1, (1, 2, 6)).astype(np.float32)})
    runs.append({"boxes": runs[0]["boxes"], "scores": np.zeros((1, 2, 6), np.float32)})
    check(text, runs, tmp_path)


def test_rows_that_a_condition_keeps(tmp_path: Path) -> None:
    text = """
    g (bool[4] c, float[4,3] x) => (float[n,3] y, float[n] sums, float[n,6] both, float[3,n] columns) {
      kept = Compress <axis = 0> (x, c)
      y = Softmax <axis = -1> (kept)
      one = Constant <value_ints = [1]> ()
      sums = ReduceSum <keepdims = 0> (kept, one)
      both = Concat <axis = 1> (kept, y)
      t = Transpose(x)
      columns = Compress <axis = 1> (t, c)
    }"""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    check(text, [{"c": mask(row)[0], "x": x} for row in ("x.xx", ".x..", "....", "xxxx")], tmp_path)


def test_distinct_values_with_all_their_facts(tmp_path: Path) -> None:
    text = """
    g (int64[2,5] x) => (int64[n] y, int64[n] first, int64[10] number, int64[n] times, int64[n] weighted) {
      y, first, number, times = Unique(x)
      weighted = Mul(first, times)
    }"""
    rng = np.random.default_rng(1)
    check(text, [{"x": rng.integers(0, high, (2, 5))} for high in (2, 9)], tmp_path)


def test_what_follows_from_constants_has_its_true_size(tmp_path: Path) -> None:
    text = """
    g (float[3] x) => (float[k] y) {
      m = Constant <value = bool[3] {1, 0, 1}> ()
      found = NonZero(m) zero = Constant <value_ints = [0]> () places = Squeeze(found, zero)
      y = Gather(x, places)
    }"""
    engine = tw.compile(model(text), cache_dir=tmp_path)
    assert engine.outputs[0].shape == (2,)
    assert engine(np.array([1, 2, 3], np.float32)).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("axes = Constant <value_ints = [0]> () y = ReduceSum(kept, axes)", "cannot be reduced"),
        ("other = Identity(x) y = Add(kept, other)", "depends on data"),
        ("y = MatMul(kept, kept)", "a size that depends on data is not supported here"),
        ("i = Constant <value_ints = [0]> () y = Gather(kept, i)", "cannot be gathered from"),
        ("y = Concat <axis = 0> (kept, x)", "cannot be concatenated along"),
        (
            "a = Constant <value_ints = [-1]> () b = Constant <value_ints = [9]> () y = Slice(kept, a, b)",
            "cut further",
        ),
        ("s = Shape(kept) y = Expand(x, s)", "must be known when the model is read"),
    ],
)
def test_what_would_need_the_size_is_refused(use: str, message: str) -> None:
    text = f"g (bool[4] c, float[4] x) => (float[n] y) {{ kept = Compress <axis = 0> (x, c) {use} }}"
    with pytest.raises(ImportModelError, match=message):
        tw.compile(model(text), target="numpy")
