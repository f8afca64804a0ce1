"""Sequences of a known length are gone when the model is read."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes
from tilewright.ops.evaluate import evaluate_function

A, B, C = (np.random.default_rng(seed).standard_normal((2, 3), np.float32) for seed in range(3))


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=outputs[0], **attributes)


def result(*nodes, **constants):
    """The value `y` that the nodes compute from inputs a, b and c."""
    used = {name for one in nodes for name in one.input}
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in zip("abc", (A, B, C), strict=True)
        if name in used
    ]
    fixed = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()]
    graph = helper.make_graph(list(nodes), "g", given, [onnx.ValueInfoProto(name="y")], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    function = read_bytes(model.SerializeToString()).entry
    arrays = dict(zip("abc", (A, B, C), strict=True))
    return evaluate_function(function, {value.name: arrays[value.name] for value in function.inputs})["y"]


ABC = node("SequenceConstruct", ["a", "b", "c"], ["s"])


@pytest.mark.parametrize(("position", "wanted"), [(0, A), (2, C), (-1, C), (-3, A)])
def test_an_element_is_the_tensor(position, wanted):
    np.testing.assert_array_equal(result(ABC, node("SequenceAt", ["s", "p"], ["y"]), p=position), wanted)


@pytest.mark.parametrize("position", [3, -4])
def test_a_position_outside_is_refused(position):
    with pytest.raises(ImportModelError, match="does not exist in a sequence of 3"):
        result(ABC, node("SequenceAt", ["s", "p"], ["y"]), p=position)


@pytest.mark.parametrize(("position", "order"), [(0, [C, A, B]), (-1, [A, C, B]), (2, [A, B, C])])
def test_insertion_goes_in_front_of_the_position(position, order):
    nodes = [
        node("SequenceConstruct", ["a", "b"], ["s"]),
        node("SequenceInsert", ["s", "c", "p"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    np.testing.assert_array_equal(result(*nodes, p=position), np.concatenate(order))


def test_insertion_without_a_position_goes_to_the_end():
    nodes = [
        node("SequenceEmpty", [], ["e"]),
        node("SequenceInsert", ["e", "a"], ["s"]),
        node("SequenceInsert", ["s", "b"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=-1, new_axis=1),
    ]
    np.testing.assert_array_equal(result(*nodes), np.stack([A, B], axis=-1))


@pytest.mark.parametrize(("names", "wanted"), [(["s"], [A, B]), (["s", "p"], [B, C])])
def test_erasing(names, wanted):
    nodes = [ABC, node("SequenceErase", names, ["t"]), node("ConcatFromSequence", ["t"], ["y"], axis=0)]
    np.testing.assert_array_equal(result(*nodes, p=0), np.concatenate(wanted))


def test_the_length_is_known():
    assert result(ABC, node("SequenceLength", ["s"], ["y"])) == 3


@pytest.mark.parametrize(
    ("sizes", "attributes", "at", "wanted"),
    [
        (None, {"axis": 1}, 2, A[:, 2:]),
        (None, {"axis": 1, "keepdims": 0}, 2, A[:, 2]),
        (2, {"axis": 1}, 1, A[:, 2:]),
        ([1, 2], {"axis": 1}, 1, A[:, 1:]),
        ([0, 3], {"axis": 1}, 0, A[:, :0]),
        (3, {"axis": 1}, 0, A),
    ],
)
def test_splitting(sizes, attributes, at, wanted):
    split = node("SplitToSequence", ["a"] if sizes is None else ["a", "n"], ["s"], **attributes)
    nodes = [split, node("SequenceAt", ["s", "p"], ["y"])]
    np.testing.assert_array_equal(result(*nodes, n=0 if sizes is None else sizes, p=at), wanted)


def test_a_sequence_is_no_tensor():
    with pytest.raises(ImportModelError, match=r"node 'y' \(Relu\): an operand is a sequence"):
        result(ABC, node("Relu", ["s"], ["y"]))
    with pytest.raises(ImportModelError, match="graph output 'y' is a sequence"):
        result(node("SequenceConstruct", ["a"], ["y"]))
    with pytest.raises(ImportModelError, match=r"\('a'\) is a tensor, expected a sequence"):
        result(node("SequenceLength", ["a"], ["y"]))
