"""Runs command lines in this process, and a model to run them on."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.cli import main


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def _commands():
    main.load_commands()


@pytest.fixture
def tilewright(_commands, capsys, monkeypatch, tmp_path):
    """Runs a command line in an empty folder with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments) -> Result:
        code = main.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def model(tmp_path):
    """y = relu(x + b), and ids that nobody uses but the output i = ids + ids."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "b"], ["s"], name="plus"),
            helper.make_node("Relu", ["s"], ["y"], name="cut"),
            helper.make_node("Add", ["ids", "ids"], ["i"], name="twice"),
        ],
        "two",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, [4]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3]),
            helper.make_tensor_value_info("i", TensorProto.INT64, [4]),
        ],
        [numpy_helper.from_array(np.array([1, -2, 3], np.float32), "b")],
    )
    path = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
