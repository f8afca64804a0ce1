"""Optionals of tensors, and opsets older than those that are read in full."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes
from tilewright.ops.evaluate import evaluate_function

X = np.array([1, -2], np.float32)


def result(op, names, opset, kind=TensorProto.FLOAT):
    given = [helper.make_tensor_value_info("x", kind, [2])]
    node = helper.make_node(op, names, ["y"], name="node")
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    function = read_bytes(model.SerializeToString()).entry
    return evaluate_function(function, {"x": X.astype(function.inputs[0].dtype.numpy)})["y"]


@pytest.mark.parametrize(("names", "there"), [(["x"], True), ([""], False), ([], False)])
def test_whether_a_tensor_is_there_is_known(names, there):
    found = result("OptionalHasElement", names, 18)
    assert found.shape == ()
    assert found.dtype == np.bool_
    assert bool(found) is there


def test_the_element_is_the_tensor():
    np.testing.assert_array_equal(result("OptionalGetElement", ["x"], 18), X)


def test_an_operator_that_has_not_changed_since_is_read_in_an_old_opset():
    np.testing.assert_array_equal(result("Not", ["x"], 1, TensorProto.BOOL), [False, False])


def test_an_operator_that_has_changed_since_is_not():
    with pytest.raises(ImportModelError, match=r"Relu .*opset 5\).*opset 5 is old.*version_converter"):
        result("Relu", ["x"], 5)
