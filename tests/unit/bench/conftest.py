"""Fixtures of the bench tests: fake engines, virtual time, a tiny model."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from virtual_world import FakeEngine, VirtualTime

from tilewright_bench.engines import registry


@pytest.fixture
def virtual_time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def fake_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry holds 'fake' and 'missing' only."""
    engines = {"fake": FakeEngine(), "missing": FakeEngine(name="missing", available=False)}
    monkeypatch.setattr(registry, "known_engines", lambda: engines)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """z = relu(x @ w) with x float32 [batch, 4] and w [4, 3] of ones; `batch` has no value."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 3])
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [1.0] * 12)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    graph = helper.make_graph(nodes, "tiny", [x], [z], [w])
    path = tmp_path_factory.mktemp("models") / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
