"""Engines that read a format of their own, where they are installed: right results, precision as asked."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright_bench.engines.base import Settings
from tilewright_bench.engines.registry import engine_of, known_engines, parse_engine
from tilewright_bench.inputs import seeded_inputs

SETTINGS = Settings(threads=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(conv(x)) with x [1, 3, 8, 8]."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 16, 8, 8])
    weight = np.random.default_rng(3).standard_normal((16, 3, 3, 3), dtype=np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "one", [x], [z], [onnx.numpy_helper.from_array(weight, "w")])
    path = tmp_path_factory.mktemp("models") / "one.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("name", ["mnn", "ncnn", "tvm"])
def test_results_are_those_of_the_model(name: str, model: Path, tmp_path: Path) -> None:
    here = known_engines()[name].availability()
    if not here.ok:
        pytest.skip(f"{name}: {here.reason}")
    spec = parse_engine(name)
    engine = engine_of(spec)
    session = engine.load(engine.prepare(model, spec, SETTINGS, tmp_path), spec, SETTINGS)
    inputs = seeded_inputs(session.inputs)
    wanted = tw.evaluate(model, inputs)["z"]
    for one in (session, session.beside()):
        np.testing.assert_allclose(one.run(inputs)["z"], wanted, rtol=1e-4, atol=1e-4)
    assert session.precision == "fp32"


@pytest.mark.parametrize("name", ["mnn", "ncnn", "tvm"])
def test_other_precisions_are_refused(name: str, model: Path, tmp_path: Path) -> None:
    here = known_engines()[name].availability()
    if not here.ok:
        pytest.skip(f"{name}: {here.reason}")
    spec = parse_engine(name)
    engine = engine_of(spec)
    settings = Settings(threads=1, precision="int8")
    with pytest.raises(TilewrightError, match="int8"):
        engine.load(engine.prepare(model, spec, settings, tmp_path), spec, settings)


def test_ncnn_left_alone_is_no_fp32(model: Path, tmp_path: Path) -> None:
    here = known_engines()["ncnn"].availability()
    if not here.ok:
        pytest.skip(f"ncnn: {here.reason}")
    spec = parse_engine("ncnn,precision=default")
    engine = engine_of(spec)
    session = engine.load(engine.prepare(model, spec, SETTINGS, tmp_path), spec, SETTINGS)
    assert session.precision == "fp16"


def test_torch_says_why_it_is_not_here() -> None:
    with pytest.raises(TilewrightError, match="does not read ONNX"):
        engine_of(parse_engine("torch"))
