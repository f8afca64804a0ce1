"""Sizes and shape operands bound at the first call, on generated code."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
import tilewright.driver
from tilewright.cli.main import load_commands
from tilewright.cli.main import run as command
from tilewright.errors import ArtefactError, RunError
from tilewright.ops.operator import REGISTRY


def reshape_model(path):
    """relu(x) in the shape that an input gives."""
    nodes = [helper.make_node("Reshape", ["x", "target"], ["r"], name="reshape")]
    nodes.append(helper.make_node("Relu", ["r"], ["y"], name="relu"))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 6]),
        helper.make_tensor_value_info("target", TensorProto.INT64, ["rank"]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")])
    graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.fixture
def gemm(tmp_path):
    """A Gemm of a named batch: case SH13 of the log."""
    w, b = np.arange(12, dtype=np.float32).reshape(4, 3) / 7, np.ones(3, np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="gemm")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    path = tmp_path / "gemm.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_sh13_one_executable_for_every_batch(gemm, cache_dir):
    exe = tw.compile(gemm, cache_dir=cache_dir)
    assert exe.inputs[0].shape == ("N", 4)
    assert exe.outputs[0].shape == ("N", 3)
    rows = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    whole = exe(rows)
    expected = tw.evaluate(gemm, {"x": rows})["y"]
    np.testing.assert_allclose(whole, expected, rtol=1e-5)
    for row in range(3):
        np.testing.assert_array_equal(exe(rows[row : row + 1]), whole[row : row + 1])
    assert exe(rows[:0]).shape == (0, 3)
    np.testing.assert_array_equal(exe(rows), whole)


def test_every_binding_is_compiled_once(network, cache_dir, monkeypatch):
    compiled = []
    original = tilewright.driver._compile
    monkeypatch.setattr(tilewright.driver, "_compile", lambda *a: compiled.append(1) or original(*a))
    exe = tw.compile(network, cache_dir=cache_dir)
    images = [np.zeros((n, 3, 12, 12), np.float32) for n in (1, 2)]
    for image in (*images, *images):
        exe(image)
    assert len(compiled) == 2
    tw.compile(network, cache_dir=cache_dir)(images[0])  # another process would find it in the cache as well
    tw.compile(network, dims={"n": 2}, cache_dir=cache_dir)(images[1])
    assert len(compiled) == 2


def test_concurrent_calls_of_a_new_size_agree(network, cache_dir):
    exe = tw.compile(network, cache_dir=cache_dir)
    image = np.random.default_rng(1).standard_normal((2, 3, 12, 12), np.float32)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: exe(image), range(8)))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_a_shape_operand_is_bound_by_its_value(tmp_path, cache_dir):
    exe = tw.compile(reshape_model(tmp_path / "r.onnx"), cache_dir=cache_dir)
    x = np.random.default_rng(0).standard_normal((4, 6), np.float32)
    for target in ([3, 8], [2, 3, -1], [24], [3, 8]):
        found = exe.run({"x": x, "target": np.array(target, np.int64)})["y"]
        np.testing.assert_array_equal(found, np.maximum(x, 0).reshape(target))
    empty = exe.run({"x": x[:0], "target": np.array([0, 3, 2], np.int64)})["y"]
    assert empty.shape == (0, 3, 2)


def test_no_graph_is_evaluated_after_compilation(network, image, cache_dir, monkeypatch):
    exe = tw.compile(network, dims={"n": 1}, cache_dir=cache_dir)
    expected = tw.evaluate(network, {"x": image}, dims={"n": 1})["y"]

    def refuse(*_):
        raise AssertionError("an operator was evaluated with NumPy")

    for name, declaration in REGISTRY.items():
        monkeypatch.setitem(REGISTRY, name, replace(declaration, evaluate=refuse))
    with pytest.raises(AssertionError, match="evaluated with NumPy"):
        tw.evaluate(network, {"x": image}, dims={"n": 1})
    np.testing.assert_allclose(exe(image), expected, rtol=1e-5, atol=1e-6)


def test_a_size_with_two_values_is_named(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"], name="add")],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    exe = tw.compile(model.SerializeToString(), cache_dir=tmp_path)
    with pytest.raises(RunError, match=r"input 'b' axis 0: dimension batch is 3 here, but .*'a' axis 0.* 2"):
        exe.run({"a": np.zeros((2, 2), np.float32), "b": np.zeros((3, 2), np.float32)})


def test_commands_take_open_sizes_from_inputs(network, tmp_path, capfd):
    load_commands()
    common = ["--cache-dir", str(tmp_path / "cache"), "-q"]
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 12, 12), np.float32))
    assert command(["run", str(network), "--input", f"x={tmp_path / 'x.npy'}", "--json", "-", *common]) == 0
    assert json.loads(capfd.readouterr().out)["outputs"][0]["shape"] == [2, 10]
    assert command(["run", str(network), *common]) == 2
    assert "the size n is not bound; give --dim n=N" in capfd.readouterr().err
    assert command(["inspect", str(network), *common]) == 2
    assert "give --dim n=N" in capfd.readouterr().err
    assert command(["compile", str(network), "-o", str(tmp_path / "n.tw"), *common]) == 2
    assert "the size n is not bound, give --dim n=N" in capfd.readouterr().err
    assert command(["compile", str(network), "-o", str(tmp_path / "n.tw"), "--dim", "n=2", *common]) == 0


def test_a_session_shows_open_sizes_by_name(network, image, cache_dir):
    session = tw.InferenceSession(network, cache_dir=cache_dir)
    assert session.get_inputs()[0].shape == ["n", 3, 12, 12]
    (found,) = session.run(None, {"x": image})
    assert found.shape == (1, 10)


def test_an_executable_with_open_values_is_not_saved(tmp_path, cache_dir):
    exe = tw.compile(reshape_model(tmp_path / "r.onnx"), cache_dir=cache_dir)
    with pytest.raises(ArtefactError, match=r"the size rows is not bound.*the shape operand target"):
        exe.save(tmp_path / "r.tw")
