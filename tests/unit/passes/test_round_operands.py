"""Operands of products rounded to bf16: where, and what the others read."""

import ml_dtypes
import numpy as np
import pytest
from pass_checks import Graph, fused, keeps, node_of, operators, random_inputs

from tilewright.dtypes import BF16, F32
from tilewright.graph.ir import Constant
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.fold import Fold
from tilewright.passes.fuse import Fuse
from tilewright.passes.lower import Lower
from tilewright.passes.round_operands import RoundOperands
from tilewright.passes.verify import verify_function


class Always:
    """A target for which products of bf16 pay."""

    def algorithms(self, node):
        return {"direct": 2.0, "bf16": 1.0} if node.operand(0).dtype == F32 else {}


class Never(Always):
    """A target without them."""

    def algorithms(self, node):
        return {}


def conv(graph, x, columns=8):
    return graph.op("Conv", x, graph.weights(columns, x.shape[1], 1, 1), strides=(1, 1))


def rounds(function):
    """Runs the pass; results stay as near as rounding the operands once allows."""
    inputs = random_inputs(function)
    before = evaluate_function(function, inputs)
    assert RoundOperands(Always()).run(function)
    verify_function(function)
    after = evaluate_function(function, inputs)
    errors = [np.linalg.norm(after[name] - y) / np.linalg.norm(y) for name, y in before.items()]
    assert 1e-5 < max(errors) < 1e-2
    assert not RoundOperands(Always()).run(function)
    return function


@pytest.mark.parametrize(
    ("op", "shape", "weights", "attrs"),
    [
        ("Conv", (2, 6, 5, 5), (4, 6, 3, 3), {"strides": (1, 1)}),
        ("MatMul", (2, 3, 6), (6, 5), {}),
        ("Gemm", (3, 6), (5, 6), {"transB": 1}),
    ],
)
def test_both_operands_are_rounded_and_the_sum_is_not(op, shape, weights, attrs):
    graph = Graph()
    function = graph.returning(graph.op(op, graph.input(*shape), graph.weights(*weights), **attrs))
    node = node_of(rounds(function), op)
    assert [v.dtype for v in node.inputs] == [BF16, BF16]
    assert isinstance(node.inputs[1], Constant)
    assert node.output.dtype == F32
    assert operators(function) == ["Cast", op]
    x = random_inputs(function)["x"]
    exact = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    once = evaluate_function(function, {"x": exact})
    np.testing.assert_array_equal(once["y0"], evaluate_function(function, {"x": x})["y0"])


def test_one_cast_serves_all_products_and_element_wise_readers():
    graph = Graph()
    r = graph.op("Relu", graph.input(1, 8, 4, 4))
    function = graph.returning(conv(graph, r), graph.op("Add", conv(graph, r), r))
    rounds(function)
    assert operators(function) == ["Relu", "Cast", "Conv", "Conv", "Cast", "Add"]


def test_every_element_wise_reader_widens_for_itself():
    graph = Graph()
    r = graph.op("Relu", graph.input(1, 8, 4, 4))
    sums = graph.op("Add", conv(graph, r), r), graph.op("Mul", conv(graph, r), r)
    function = rounds(graph.returning(*sums))
    assert operators(function) == ["Relu", "Cast", "Conv", "Cast", "Add", "Conv", "Cast", "Mul"]
    Fuse().run(function)
    assert fused(function) == [["Relu", "Cast"], ["Conv", "Cast", "Add"], ["Conv", "Cast", "Mul"]]


def test_readers_that_would_need_a_copy_keep_float32():
    graph = Graph()
    r = graph.op("Relu", graph.input(1, 8, 4, 4))
    function = graph.returning(conv(graph, r), graph.op("ReduceMean", r, axes=(2, 3), keepdims=True))
    rounds(function)
    assert operators(function) == ["Relu", "Cast", "Conv", "ReduceMean"]


def test_an_output_of_the_model_is_not_rounded():
    graph = Graph()
    r = graph.op("Relu", graph.input(1, 8, 4, 4))
    p = graph.op("MaxPool", r, kernel_shape=(2, 2), strides=(2, 2))
    function = graph.returning(p, conv(graph, p))
    assert RoundOperands(Always()).run(function)
    verify_function(function)
    assert operators(function) == ["Relu", "MaxPool", "Cast", "Conv"]
    assert function.outputs[0].dtype == F32


def test_what_only_moves_elements_moves_rounded_ones():
    graph = Graph()
    x = graph.input(1, 8, 4, 4)
    both = graph.op("Concat", graph.op("Relu", x), graph.op("Neg", x), axis=1)
    pooled = graph.op("MaxPool", both, kernel_shape=(2, 2), strides=(2, 2))
    function = graph.returning(conv(graph, pooled), graph.op("ReduceSum", pooled, axes=(1,), keepdims=True))
    rounds(function)
    assert [v.dtype for v in node_of(function, "Concat").inputs] == [BF16, BF16]
    assert node_of(function, "MaxPool").output.dtype == BF16
    assert node_of(function, "ReduceSum").operand(0).dtype == F32


def test_weights_that_a_loop_captures_are_rounded_in_front_of_it():
    graph = Graph()
    x = graph.input(3, 2, 4)
    weights = [graph.weights(1, 4 * 6, 4, name="w"), graph.weights(1, 4 * 6, 6, name="r")]
    function = graph.returning(graph.ops("LSTM", x, *weights, hidden_size=6)[0])
    Lower(lambda node: node.op == "LSTM").run(function)
    Fold().run(function)  # transposes the weights
    rounds(function)
    body = node_of(function, "Scan").bodies[0]
    captured = node_of(body, "MatMul").operand(1)
    assert captured in body.inputs
    outer = node_of(function, "Scan").inputs[body.inputs.index(captured)]
    assert isinstance(outer, Constant)
    assert outer.dtype == BF16


def test_an_odd_number_of_channels_gets_one_of_zeros():
    graph = Graph()
    x = graph.input(1, 3, 5, 5)
    function = rounds(graph.returning(conv(graph, x), conv(graph, x, columns=6)))
    assert operators(function) == ["Cast", "Pad", "Conv", "Conv"]
    for node in function.nodes[2:]:
        assert [v.dtype for v in node.inputs] == [BF16, BF16]
        assert node.operand(1).shape[1] == 4
        assert not node.operand(1).data[:, 3].any()


def test_odd_numbers_of_channels_in_groups_are_left_alone():
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 6, 5, 5), graph.weights(4, 3, 1, 1), strides=(1, 1), group=2)
    keeps(graph.returning(y), RoundOperands(Always()))


def test_nothing_is_rounded_without_the_target_s_word():
    graph = Graph()
    keeps(graph.returning(conv(graph, graph.input(1, 8, 4, 4))), RoundOperands(Never()))


def test_products_of_two_computed_operands_are_left_alone():
    graph = Graph()
    x = graph.input(4, 4)
    function = graph.returning(graph.op("MatMul", x, graph.op("Relu", x)))
    keeps(function, RoundOperands(Always()))
    assert not node_of(function, "MatMul").notes  # nothing was chosen, so nothing is noted
