"""`tilewright debug` with compiled kernels: levels against one another and against the reference."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from onnx import TensorProto, helper
from typer.testing import CliRunner

from tilewright_bench.cli import register


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions with a residual; the fused kernels hide `sum` and `first`."""
    seeded = np.random.default_rng(3)
    weights = {name: seeded.standard_normal((8, 8, 3, 3)).astype(np.float32) for name in ("v", "w")}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["conv/0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv/0"], ["first"]),
        helper.make_node("Conv", ["first", "w"], ["conv/1"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["conv/1", "x"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8, 6, 6]) for n in ("x", "y"))
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    path = tmp_path_factory.mktemp("models") / "residual.onnx"
    graph = helper.make_graph(nodes, "residual", [x], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("mode", ["all", "bisect"])
@pytest.mark.parametrize("other", ["tilewright:cpu,opt=0", "float64", "ort"])
def test_compiled_kernels_agree(model: Path, tmp_path: Path, mode: str, other: str) -> None:
    code, result = debug(model, tmp_path, other, "--mode", mode)
    assert (code, result["first"]) == (0, None)
    assert len(result["rows"]) == (5 if mode == "all" else 1)


def test_bisection_finds_the_first_rounding(model: Path, tmp_path: Path) -> None:
    """float32 rounds at the first convolution already; at a tolerance of zero that is the first tensor."""
    code, result = debug(model, tmp_path, "float64", "--mode", "bisect", "--tolerance", "0")
    assert (code, result["first"]["name"]) == (1, "conv/0")
    assert {len(np.load(path)) for path in result["first"]["files"]} == {1}


def debug(model: Path, folder: Path, other: str, *options: str) -> tuple[int, dict]:
    app = typer.Typer()
    register(app)
    engines = ("--engine", "tilewright:cpu", "--engine", other)
    fixed = ("--threads", "1", "--json", "-", "--output-dir", str(folder / "out"))
    done = CliRunner().invoke(app, ["debug", str(model), *engines, *fixed, *options])
    return done.exit_code, json.loads(done.stdout)


def test_an_input_that_decides_shapes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "reshape", inputs, [y])
    path = tmp_path / "reshape.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.save(tmp_path / "shape.npy", np.array([2, 2]))
    given = ("--input", f"shape={tmp_path / 'shape.npy'}")
    code, result = debug(path, tmp_path, "ort", *given)
    assert (code, result["first"]) == (0, None)
    assert [row["shape"] for row in result["rows"]] == [[2, 2], [2, 2]]
