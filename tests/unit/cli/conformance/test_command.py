"""`tilewright conformance`, and the ONNX backend behind it."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

from tilewright import onnx_backend
from tilewright.cli.main import load_commands
from tilewright.cli.main import run as command

SIMPLE = ["conformance", "--target", "numpy", "--kind", "simple", "-q"]


@pytest.fixture(autouse=True, scope="module")
def commands():
    load_commands()


def test_results_as_json(capfd):
    assert command([*SIMPLE, "-k", "sign_model|strnorm_model_monday_empty", "--json", "-"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["totals"]["all"] == {"passed": 1, "failed": 0, "refused": 1}
    assert found["totals"]["tensor"] == {"passed": 1, "failed": 0, "refused": 0}
    assert found["complete"] is True
    assert {case["status"] for case in found["cases"]} == {"passed", "refused"}


def test_the_table_lists_what_did_not_pass(capfd):
    assert command([*SIMPLE, "-k", "strnorm_model_monday_empty", "--failures"]) == 0
    text = capfd.readouterr().out
    assert "StringNormalizer" in text
    assert "all cases: 1: 0 passed, 0 failed, 1 refused" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "abacus"], "unknown target 'abacus'"),
        (["--kind", "real"], "--kind real: known are"),
        (["-k", "no_such_case"], "no case of that name"),
        (["--write-docs", "/no/such/folder/x.md"], "cannot be written"),
    ],
)
def test_bad_usage(options, message, capfd):
    assert command(["conformance", "--kind", "simple", *options]) == 2
    assert message in capfd.readouterr().err


def add_model(shape=("n",)):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "aby"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"], name="add")], "g", infos[:2], infos[2:]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


A, B = np.array([1, 2], np.float32), np.array([3, 5], np.float32)


@pytest.mark.parametrize("inputs", [[A, B], {"b": B, "a": A}])
def test_a_prepared_model_runs(inputs):
    prepared = onnx_backend.prepare(add_model(), target="numpy")
    for _ in range(2):
        (found,) = prepared.run(inputs)
        np.testing.assert_array_equal(found, A + B)


def test_models_and_nodes_run_at_once():
    (found,) = onnx_backend.run_model(add_model(), [A, B], target="numpy")
    np.testing.assert_array_equal(found, A + B)
    node = helper.make_node("Sub", ["a", "b"], ["y"])
    (found,) = onnx_backend.run_node(node, [A, B], target="numpy")
    np.testing.assert_array_equal(found, A - B)


def test_devices_and_numbers_of_inputs_are_checked():
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA:0")
    with pytest.raises(ValueError, match="device 'CUDA' is not supported"):
        onnx_backend.prepare(add_model(), "CUDA")
    with pytest.raises(ValueError, match="1 inputs given, the model takes 2"):
        onnx_backend.run_model(add_model(), [A], target="numpy")
