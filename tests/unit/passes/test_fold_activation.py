"""Chains of clamping activations."""

from itertools import product

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, operators

from tilewright.dtypes import I32
from tilewright.graph.ir import Value
from tilewright.passes.fold_activation import FoldActivation

BOUNDS = (None, -1.0, 0.0, 2.0)
CLAMPS = ["relu", *product(BOUNDS, BOUNDS)]


def _clamp(graph: Graph, x: Value, clamp: object) -> Value:
    if clamp == "relu":
        return graph.op("Relu", x)
    assert isinstance(clamp, tuple)
    return graph.op("Clip", x, *(None if bound is None else graph.constant(bound) for bound in clamp))


@pytest.mark.parametrize("inner", CLAMPS, ids=str)
@pytest.mark.parametrize("outer", CLAMPS, ids=str)
def test_two_clamps_become_one(inner: object, outer: object):
    """All combinations, bounds that cross included: ONNX's Clip then gives the upper bound."""
    graph = Graph()
    x = graph.input(64)
    function = fires(graph.returning(_clamp(graph, _clamp(graph, x, inner), outer)), FoldActivation())
    assert operators(function) in (["Relu"], ["Clip"])


def test_relu_after_clip_raises_its_lower_bound():
    graph = Graph()
    x = graph.input(8)
    clipped = graph.op("Clip", x, graph.constant(-1.0), graph.constant(6.0))
    function = fires(graph.returning(graph.op("Relu", clipped)), FoldActivation())
    assert [constant.data.item() for constant in function.constants()] == [0.0, 6.0]


def test_three_in_a_row():
    graph = Graph()
    x = graph.op("Relu", graph.op("Relu", graph.op("Relu", graph.input(8))))
    assert operators(fires(graph.returning(x), FoldActivation())) == ["Relu"]


def test_clip_at_zero_is_relu():
    graph = Graph()
    function = fires(graph.returning(graph.op("Clip", graph.input(8), graph.constant(0.0))), FoldActivation())
    assert operators(function) == ["Relu"]


def test_integers():
    graph = Graph()
    x = graph.input(8, dtype=I32)
    clipped = graph.op("Clip", x, graph.constant(np.int32(-2)), graph.constant(np.int32(3)))
    assert operators(fires(graph.returning(graph.op("Relu", clipped)), FoldActivation())) == ["Clip"]


def test_not_when_the_inner_result_is_needed():
    graph = Graph()
    inner = graph.op("Clip", graph.input(8), graph.constant(-1.0), graph.constant(1.0))
    keeps(graph.returning(graph.op("Relu", inner), inner), FoldActivation())


def test_equal_clamps_merge_even_then():
    graph = Graph()
    inner = graph.op("Relu", graph.input(8))
    function = fires(graph.returning(graph.op("Relu", inner), graph.op("Neg", inner)), FoldActivation())
    assert sorted(operators(function)) == ["Neg", "Relu", "Relu"]


def test_not_with_bounds_that_are_inputs_or_nan():
    graph = Graph()
    low = graph.input(name="low")
    keeps(graph.returning(graph.op("Relu", graph.op("Clip", graph.input(8), low))), FoldActivation())
    graph = Graph()
    clipped = graph.op("Clip", graph.input(8), graph.constant(np.nan))
    function = graph.returning(graph.op("Relu", clipped))
    assert not FoldActivation().run(function)


def test_not_other_activations():
    graph = Graph()
    keeps(graph.returning(graph.op("Relu", graph.op("LeakyRelu", graph.input(8)))), FoldActivation())
