"""Transposes and reshapes."""

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, node_of, operators

from tilewright.graph.ir import Value
from tilewright.passes.simplify_reshape import SimplifyReshape
from tilewright.passes.simplify_transpose import SimplifyTranspose

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def _transpose(graph: Graph, x: Value, perm: tuple[int, ...]) -> Value:
    return graph.op("Transpose", x, perm=perm)


def test_two_transposes_that_cancel():
    graph = Graph()
    x = graph.input(2, 3, 4, 5)
    both = _transpose(graph, _transpose(graph, x, TO_LAST), TO_FIRST)
    assert operators(fires(graph.returning(graph.op("Exp", both)), SimplifyTranspose())) == ["Exp"]


def test_two_transposes_become_one():
    graph = Graph()
    x = graph.input(2, 3, 4, 5)
    both = _transpose(graph, _transpose(graph, x, (1, 0, 2, 3)), TO_LAST)
    function = fires(graph.returning(both), SimplifyTranspose())
    assert operators(function) == ["Transpose"]
    assert node_of(function, "Transpose").attrs["perm"] == (1, 2, 3, 0)


def test_transposes_of_constants_are_done_at_once():
    graph = Graph()
    y = graph.op("MatMul", graph.input(2, 3), _transpose(graph, graph.weights(4, 3), (1, 0)))
    assert operators(fires(graph.returning(y), SimplifyTranspose())) == ["MatMul"]


def test_equal_transposes_sink_below_a_sum():
    graph = Graph()
    parts = [_transpose(graph, graph.input(2, 3, 4, 5, name=name), TO_LAST) for name in "ab"]
    function = fires(graph.returning(graph.op("Add", *parts)), SimplifyTranspose())
    assert operators(function) == ["Add", "Transpose"]


def test_a_transpose_sinks_through_a_chain_to_its_inverse():
    graph = Graph()
    y = _transpose(graph, graph.input(2, 3, 4, 5), TO_LAST)
    y = graph.op("Add", y, graph.weights(3))
    y = graph.op("Relu", graph.op("Mul", graph.weights(4, 1, 3), y))
    y = graph.op("Max", y, graph.constant(0.5))
    function = fires(graph.returning(_transpose(graph, y, TO_FIRST)), SimplifyTranspose())
    assert operators(function) == ["Add", "Mul", "Relu", "Max"]


def test_a_transpose_sinks_to_several_transposes():
    graph = Graph()
    y = graph.op("Relu", _transpose(graph, graph.input(2, 3, 4, 5), TO_LAST))
    outputs = [_transpose(graph, y, TO_FIRST), _transpose(graph, y, (3, 0, 1, 2))]
    function = fires(graph.returning(*outputs), SimplifyTranspose())
    assert sorted(operators(function)) == ["Relu", "Transpose"]


def test_nothing_sinks_without_gain():
    graph = Graph()
    y = graph.op("Relu", _transpose(graph, graph.input(2, 3, 4, 5), TO_LAST))
    keeps(graph.returning(graph.op("Softmax", y, axis=1)), SimplifyTranspose())


def test_nothing_sinks_that_others_read():
    graph = Graph()
    transposed = _transpose(graph, graph.input(2, 3, 4, 5), TO_LAST)
    back = _transpose(graph, graph.op("Relu", transposed), TO_FIRST)
    keeps(graph.returning(back, transposed), SimplifyTranspose())


def test_different_transposes_stay():
    graph = Graph()
    first = _transpose(graph, graph.input(3, 3, 3, name="a"), (1, 0, 2))
    second = _transpose(graph, graph.input(3, 3, 3, name="b"), (2, 0, 1))
    keeps(graph.returning(graph.op("Add", first, second)), SimplifyTranspose())


def test_an_operand_of_lower_rank_stays():
    graph = Graph()
    first = _transpose(graph, graph.input(3, 3, 3, name="a"), (1, 0, 2))
    second = _transpose(graph, graph.input(3, 3, name="b"), (1, 0))
    keeps(graph.returning(graph.op("Add", first, second)), SimplifyTranspose())


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axes", [(1, 2), (3,), (0, 2), ()])
def test_a_reduction_needs_no_transpose_before_it(axes: tuple[int, ...], keepdims: bool):
    graph = Graph()
    y = _transpose(graph, graph.input(2, 3, 4, 5), TO_LAST)
    y = graph.op("ReduceSum", graph.op("Relu", y), axes=axes, keepdims=keepdims)
    function = fires(graph.returning(y), SimplifyTranspose())
    assert operators(function)[:2] == ["Relu", "ReduceSum"]
    gone = axes in ((1, 2), (3,)) and not keepdims
    assert len(operators(function)) == (2 if gone else 3)


def test_reshapes_merge():
    graph = Graph()
    once = graph.op("Reshape", graph.input(2, 3, 4), shape=(6, 4))
    function = fires(graph.returning(graph.op("Reshape", once, shape=(3, 8))), SimplifyReshape())
    assert operators(function) == ["Reshape"]


def test_reshapes_that_cancel():
    graph = Graph()
    once = graph.op("Reshape", graph.input(2, 3, 4), shape=(6, 4))
    back = graph.op("Reshape", once, shape=(2, 3, 4))
    assert operators(fires(graph.returning(graph.op("Exp", back)), SimplifyReshape())) == ["Exp"]


def test_a_reshape_that_others_read_stays_for_them():
    graph = Graph()
    once = graph.op("Reshape", graph.input(2, 3, 4), shape=(6, 4))
    function = fires(graph.returning(once, graph.op("Reshape", once, shape=(3, 8))), SimplifyReshape())
    assert operators(function) == ["Reshape", "Reshape"]


def test_reshapes_of_constants_are_done_at_once():
    graph = Graph()
    y = graph.op("Add", graph.input(2, 3), graph.op("Reshape", graph.weights(6), shape=(2, 3)))
    assert operators(fires(graph.returning(y), SimplifyReshape())) == ["Add"]


@pytest.mark.parametrize(
    ("shape", "perm"), [((1, 6, 1, 1), TO_LAST), ((2, 1, 3, 1), (1, 0, 3, 2)), ((1, 1), (1, 0))]
)
def test_moving_axes_of_extent_one_is_a_reshape(shape: tuple[int, ...], perm: tuple[int, ...]):
    graph = Graph()
    function = fires(graph.returning(_transpose(graph, graph.input(*shape), perm)), SimplifyReshape())
    assert operators(function) == ["Reshape"]
    assert function.outputs[0].shape == tuple(np.array(shape)[list(perm)])


def test_moving_longer_axes_is_not():
    graph = Graph()
    keeps(graph.returning(_transpose(graph, graph.input(2, 3, 1, 1), (1, 0, 2, 3))), SimplifyReshape())


def test_a_lone_reshape_stays():
    graph = Graph()
    keeps(graph.returning(graph.op("Reshape", graph.input(2, 3), shape=(6,))), SimplifyReshape())
