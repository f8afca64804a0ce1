"""Constant folding."""

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, operators

from tilewright.graph.ir import Constant
from tilewright.passes.fold import Fold
from tilewright.passes.verify import verify_function
from tilewright.storage import Storage


def test_a_chain_of_constants_becomes_one_constant():
    graph = Graph()
    x = graph.input(2, 3)
    chain = graph.op("Exp", graph.op("Add", graph.weights(2, 3), graph.weights(3)))
    function = fires(graph.returning(graph.op("Mul", x, chain)), Fold())
    assert operators(function) == ["Mul"]


def test_an_output_may_become_a_constant():
    graph = Graph()
    function = fires(graph.returning(graph.op("Neg", graph.weights(2))), Fold())
    assert operators(function) == []
    assert isinstance(function.outputs[0], Constant)


def test_all_results_of_a_split_are_folded():
    graph = Graph()
    x = graph.input(2)
    first, second = graph.ops("Split", graph.weights(4), axis=0, sizes=(2, 2))
    function = fires(graph.returning(graph.op("Add", graph.op("Add", x, first), second)), Fold())
    assert operators(function) == ["Add", "Add"]


def test_pack_of_a_constant_is_folded_into_its_storage():
    graph = Graph()
    weights = graph.weights(3, 2)
    packed = graph.op("Pack", weights, storage=Storage("Ab4a"))
    function = graph.returning(graph.op("Unpack", packed))
    assert Fold(max_bytes=0, max_growth=0).run(function)
    verify_function(function)
    (unpack,) = function.nodes
    constant = unpack.operand(0)
    assert isinstance(constant, Constant)
    assert constant.type.storage == Storage("Ab4a")
    np.testing.assert_array_equal(constant.type.storage.unpack(constant.data, (3, 2)), weights.data)


@pytest.mark.parametrize(("limit", "folded"), [(100, False), (1000, True)])
def test_expanding_a_constant_is_bounded(limit: int, folded: bool):
    graph = Graph()
    x = graph.input(10, 10)
    tiled = graph.op("Tile", graph.weights(1, 1), repeats=(10, 10))  # 400 bytes out of 4
    function = graph.returning(graph.op("Add", x, tiled))
    if folded:
        assert operators(fires(function, Fold(max_bytes=limit))) == ["Add"]
    else:
        keeps(function, Fold(max_bytes=limit))


def test_placeholders_are_never_folded():
    graph = Graph()
    keeps(graph.returning(graph.op("Add", graph.input(2), graph.weights(2))), Fold())


def test_infinities_are_folded_as_they_would_be_computed():
    graph = Graph()
    x = graph.input(2)
    quotient = graph.op("Div", graph.constant([1.0, -1.0]), graph.constant([0.0, 0.0]))
    function = graph.returning(graph.op("Min", x, quotient))
    assert Fold().run(function)
    np.testing.assert_array_equal(function.constants()[0].data, np.array([np.inf, -np.inf], np.float32))
