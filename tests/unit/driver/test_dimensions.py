"""Sizes that the caller binds: names that the model has, and numbers."""

import numpy as np
import onnx.parser
import pytest

import tilewright as tw
from tilewright.errors import UsageError

MODEL = onnx.parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, M] y) { y = Relu (x) }"""
).SerializeToString()
X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "bind",
    [
        lambda dims: tw.compile(MODEL, target="numpy", dims=dims),
        lambda dims: tw.evaluate(MODEL, {"x": X}, dims=dims),
    ],
)
def test_a_name_that_the_model_does_not_have(bind):
    with pytest.raises(UsageError, match=r"no dimension 'Q' to bind; its named dimensions are N, M$"):
        bind({"N": 2, "Q": 3})
    bind({"N": 2})
    bind({"M": 3})


def test_load_names_it_too(tmp_path):
    (tmp_path / "g.onnx").write_bytes(MODEL)
    with pytest.raises(UsageError, match="no dimension 'Q'"):
        tw.load(tmp_path / "g.onnx", {"N": 2, "Q": 3})


def test_a_graph_has_its_sizes(tmp_path):
    (tmp_path / "g.onnx").write_bytes(MODEL)
    module = tw.load(tmp_path / "g.onnx", {"N": 2})
    with pytest.raises(UsageError, match="'N' cannot be bound"):
        tw.compile(module, target="numpy", dims={"N": 2})


@pytest.mark.parametrize("size", ["a", 1.5, True, None, -1])
def test_a_size_is_a_number(size):
    with pytest.raises(UsageError, match=r"dimension N: its size is .*; give an integer"):
        tw.compile(MODEL, target="numpy", dims={"N": size})


def test_a_numpy_integer_is_a_size():
    assert tw.compile(MODEL, target="numpy", dims={"N": np.int64(2)})(X).shape == (2, 3)
