"""Which inputs are bound by value: those that feed shape operands, and nothing else."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes, read_signature
from tilewright.frontend.shape_operands import SHAPE_OPERANDS, bindable_inputs
from tilewright.ops.evaluate import evaluate_function


def graph_of(nodes, inputs, outputs=("y",)):
    infos = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    return helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs])


X = ("x", TensorProto.FLOAT, [2, 3])
S = ("s", TensorProto.INT64, [2])
RESHAPE = helper.make_node("Reshape", ["x", "s"], ["y"], name="reshape")


def model_of(graph):
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def test_the_target_of_a_reshape_is():
    assert bindable_inputs(graph_of([RESHAPE], [X, S])).only == {"s"}


def test_a_weight_never_is():
    assert bindable_inputs(graph_of([helper.make_node("MatMul", ["x", "s"], ["y"])], [X, S])).only == set()


def test_arithmetic_on_sizes_hands_it_on():
    nodes = [
        helper.make_node("Mul", ["s", "t"], ["m"]),
        helper.make_node("Concat", ["m", "t"], ["c"], axis=0),
        helper.make_node("Reshape", ["x", "c"], ["y"]),
    ]
    assert bindable_inputs(graph_of(nodes, [X, S, ("t", TensorProto.INT64, [2])])).only == {"s", "t"}


def test_an_input_that_is_data_too_is_not():
    nodes = [RESHAPE, helper.make_node("Cast", ["s"], ["z"], to=TensorProto.FLOAT)]
    assert bindable_inputs(graph_of(nodes, [X, S], ("y", "z"))).only == set()


def test_arithmetic_that_also_makes_data_is_not_handed_on():
    nodes = [
        helper.make_node("Add", ["s", "s"], ["m"]),
        helper.make_node("Reshape", ["x", "m"], ["y"]),
        helper.make_node("Gather", ["x", "m"], ["z"], axis=1),
    ]
    assert bindable_inputs(graph_of(nodes, [X, S], ("y", "z"))).only == set()


def test_a_value_that_an_inner_graph_returns_is_data():
    inner = helper.make_graph([], "then", [], [onnx.ValueInfoProto(name="s")])
    node = helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)
    inputs = [X, S, ("c", TensorProto.BOOL, [])]
    assert bindable_inputs(graph_of([RESHAPE, node], inputs, ("y", "z"))).only == set()


def test_the_operator_of_another_domain_reads_data():
    node = helper.make_node("Reshape", ["x", "s"], ["y"], domain="com.example")
    assert bindable_inputs(graph_of([node], [X, S])).only == set()


def test_a_short_list_that_is_data_too_is_known_to_shape_operands():
    nodes = [RESHAPE, helper.make_node("Cast", ["s"], ["z"], to=TensorProto.FLOAT)]
    graph = graph_of(nodes, [X, S], ("y", "z"))
    assert bindable_inputs(graph).also == {"s"}
    function = read_bytes(model_of(graph), values={"s": np.array([3, 2], np.int64)}).entry
    assert [value.name for value in function.inputs] == ["x", "s"]
    assert function.outputs[0].shape == (3, 2)
    assert any(node.op == "Cast" and node.inputs[0].name == "s" for node in function.nodes)


@pytest.mark.parametrize("shape", [["n"], [17], [2, 2], [0]])
def test_longer_data_is_not(shape):
    nodes = [
        helper.make_node("ReduceMax", ["s"], ["m"], keepdims=1),
        helper.make_node("Expand", ["x", "m"], ["y"]),
        helper.make_node("Neg", ["s"], ["z"]),
    ]
    found = bindable_inputs(graph_of(nodes, [X, ("s", TensorProto.INT64, shape)], ("y", "z")))
    assert found.only | found.also == set()


TRAINING = [("x", TensorProto.FLOAT, [2, 3]), ("r", TensorProto.FLOAT, []), ("t", TensorProto.BOOL, [])]


def test_whether_dropout_trains_is_and_then_its_ratio():
    graph = graph_of([helper.make_node("Dropout", ["x", "r", "t"], ["y"], seed=1)], TRAINING)
    assert bindable_inputs(graph).only == {"r", "t"}


def test_the_ratio_of_a_dropout_that_never_trains_is_not():
    graph = graph_of([helper.make_node("Dropout", ["x", "r"], ["y"])], TRAINING[:2])
    assert bindable_inputs(graph).only == set()


@pytest.mark.parametrize("training", [False, True])
def test_dropout_is_what_its_bound_operand_says(training):
    model = model_of(graph_of([helper.make_node("Dropout", ["x", "r", "t"], ["y"], seed=1)], TRAINING))
    values = {"r": np.array(0.5, np.float32), "t": np.array(training)}
    function = read_bytes(model, values=values).entry
    x = np.ones((2, 3), np.float32)
    found = evaluate_function(function, {"x": x})["y"]
    assert set(np.unique(found)) == ({0.0, 2.0} if training else {1.0})


def test_an_unused_input_is_not():
    relu = helper.make_node("Relu", ["x"], ["y"])
    assert bindable_inputs(graph_of([relu], [X, S])).only == set()


@pytest.mark.parametrize("op", sorted(SHAPE_OPERANDS))
def test_the_table_names_operands_that_onnx_has(op):
    schema = onnx.defs.get_schema(op)
    assert schema.max_input > max(SHAPE_OPERANDS[op])


def test_a_signature_keeps_names():
    inputs = [("x", TensorProto.FLOAT, ["batch", None, 3]), ("s", TensorProto.INT64, ["rank"])]
    signature = read_signature(model_of(graph_of([RESHAPE], inputs)))
    assert [tensor.shape for tensor in signature.inputs] == [("batch", "x:1", 3), ("rank",)]
    assert signature.by_value == {"s"}
    assert signature.unbound_dims({}) == ["batch", "x:1"]
    assert signature.unbound_dims({"batch": 2}) == ["x:1"]


def test_a_bound_value_is_no_input_of_the_graph():
    data = model_of(graph_of([RESHAPE], [X, S]))
    function = read_bytes(data, values={"s": np.array([3, 2], np.int64)}).entry
    assert [value.name for value in function.inputs] == ["x"]
    assert function.outputs[0].shape == (3, 2)


def test_data_cannot_be_bound_by_value():
    with pytest.raises(ImportModelError, match="input 'x' cannot be bound by value"):
        read_bytes(model_of(graph_of([RESHAPE], [X, S])), values={"x": np.zeros((2, 3), np.float32)})


def test_what_is_not_supported_is_known_before_the_first_call():
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd")
    with pytest.raises(ImportModelError, match="NoSuchOperator"):
        read_signature(model_of(graph_of([node], [("x", TensorProto.FLOAT, ["n"])])))


def test_looking_at_a_shape_is_not_looking_at_values():
    nodes = [helper.make_node("Shape", ["s"], ["n"]), helper.make_node("Expand", ["x", "n"], ["y"])]
    found = bindable_inputs(graph_of(nodes, [X, S]))
    assert found.only | found.also == set()


def test_sizes_are_followed_through_the_branches_of_an_if():
    inner = helper.make_graph(
        [helper.make_node("Neg", ["s"], ["negated"])], "then", [], [onnx.ValueInfoProto(name="negated")]
    )
    node = helper.make_node("If", ["c"], ["t"], then_branch=inner, else_branch=inner)
    nodes = [node, helper.make_node("Reshape", ["x", "t"], ["y"])]
    inputs = [X, S, ("c", TensorProto.BOOL, [])]
    assert bindable_inputs(graph_of(nodes, inputs)).only == {"s", "c"}
