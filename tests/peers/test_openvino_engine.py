"""OpenVINO behind the common boundary (extra `peers`)."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import UsageError
from tilewright_bench.engines.base import Prepared, Settings
from tilewright_bench.engines.registry import engine_of, parse_engine

pytest.importorskip("openvino", reason="needs the extra 'peers': pip install 'tilewright[peers]'")


@pytest.fixture
def prepared(tmp_path):
    """z = x @ w with x float32 [batch, 4] and w [4, 3] of ones."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 3])
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [1.0] * 12)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["z"])], "product", [x], [z], [w])
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return Prepared(path)


def load(text, prepared, **settings):
    spec = parse_engine(text)
    return engine_of(spec).load(prepared, spec, Settings(threads=1, **settings))


def test_runs_in_fp32_when_asked(prepared):
    session = load("openvino", prepared, dims={"batch": 2})
    assert session.precision == "fp32"
    assert [(one.name, one.dtype, one.shape) for one in session.inputs] == [("x", np.float32, (2, 4))]
    output = session.run({"x": np.ones((2, 4), np.float32)})["z"]
    np.testing.assert_array_equal(output, np.full((2, 3), 4, np.float32))


def test_outputs_are_copies(prepared):
    session = load("openvino", prepared, dims={"batch": 1})
    first = session.run({"x": np.ones((1, 4), np.float32)})["z"]
    session.run({"x": np.zeros((1, 4), np.float32)})
    np.testing.assert_array_equal(first, np.full((1, 3), 4, np.float32))


def test_its_own_choice_is_detected(prepared):
    session = load("openvino,precision=default", prepared, dims={"batch": 1})
    assert session.precision in ("fp32", "bf16", "fp16")
    assert session.notes["computes_in"] in ("f32", "bf16", "f16")


def test_fp32_keeps_the_looser_contract(prepared):
    assert load("openvino", prepared, dims={"batch": 1}, precision="fp32-fast").precision == "fp32-fast"
    forced = load("openvino,precision=fp32", prepared, dims={"batch": 1}, precision="fp32-fast")
    assert forced.precision == "fp32-fast"


def test_unknown_precision_and_unbound_dimension_are_refused(prepared):
    with pytest.raises(UsageError, match="precision=int4 is not known"):
        load("openvino,precision=int4", prepared, dims={"batch": 1})
    with pytest.raises(UsageError, match="input 'x' has dimensions without a value"):
        load("openvino", prepared)
