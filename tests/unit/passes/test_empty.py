"""Tensors without elements become constants, and nothing else does."""

import numpy as np
from pass_checks import Graph, keeps, operators

from tilewright.graph.ir import Constant
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.empty import Empty
from tilewright.passes.verify import verify_function


def run(function):
    assert Empty().run(function)
    verify_function(function)
    assert not Empty().run(function), "a second run must find nothing"
    return function


def test_an_empty_result_becomes_a_constant():
    graph = Graph()
    function = run(graph.returning(graph.op("Relu", graph.input(0, 4))))
    assert operators(function) == []
    assert isinstance(function.outputs[0], Constant)
    assert function.outputs[0].shape == (0, 4)


def test_a_chain_of_empty_tensors_goes_altogether():
    graph = Graph()
    x = graph.op("Exp", graph.op("Add", graph.input(0, 4), graph.weights(4)))
    assert operators(run(graph.returning(graph.op("MatMul", x, graph.weights(4, 2))))) == []


def test_a_reduction_over_nothing_has_its_neutral_value():
    graph = Graph()
    total = graph.op("ReduceSum", graph.input(0, 3), axes=(0,), keepdims=False)
    function = run(graph.returning(total))
    assert operators(function) == []
    np.testing.assert_array_equal(function.outputs[0].data, np.zeros(3, np.float32))


def test_a_large_result_of_nothing_stays_a_node():
    graph = Graph()
    product = graph.op("MatMul", graph.input(30, 0, name="a"), graph.input(0, 30, name="b"))
    function = graph.returning(product)
    assert not Empty(max_bytes=100).run(function)
    assert operators(function) == ["MatMul"]


def test_empty_parts_leave_a_concatenation():
    graph = Graph()
    parts = [graph.input(0, 3, name="a"), graph.input(2, 3, name="b"), graph.input(1, 3, name="c")]
    function = run(graph.returning(graph.op("Concat", *parts, axis=0)))
    assert [len(node.inputs) for node in function.nodes] == [2]
    arrays = [np.full(part.shape, index, np.float32) for index, part in enumerate(parts)]
    found = evaluate_function(function, dict(zip("abc", arrays, strict=True)))["y0"]
    np.testing.assert_array_equal(found, np.concatenate(arrays))


def test_a_single_part_that_is_left_is_the_result():
    graph = Graph()
    parts = [graph.input(0, 3, name="a"), graph.input(2, 3, name="b")]
    assert operators(run(graph.returning(graph.op("Concat", *parts, axis=0)))) == ["Identity"]


def test_tensors_with_elements_are_left_alone():
    graph = Graph()
    x = graph.input(1, 3)
    keeps(graph.returning(graph.op("Concat", x, graph.op("Relu", x), axis=0)), Empty())
