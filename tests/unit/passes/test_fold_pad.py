"""Explicit padding in front of windows."""

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, node_of, operators

from tilewright.graph.ir import Value
from tilewright.passes.fold_pad import FoldPad

SPATIAL = (0, 0, 1, 2, 0, 0, 0, 1)


def _padded(graph: Graph, value: float | None = None, **attrs: object) -> Value:
    operands = () if value is None else (graph.constant(value),)
    return graph.op("Pad", graph.input(2, 3, 8, 8), *operands, **{"pads": SPATIAL, **attrs})


@pytest.mark.parametrize("value", [None, 0.0])
def test_conv_pads_by_itself(value: float | None):
    graph = Graph()
    y = graph.op("Conv", _padded(graph, value), graph.weights(4, 3, 3, 3), pads=(1, 1, 1, 1), strides=(2, 2))
    function = fires(graph.returning(y), FoldPad())
    assert operators(function) == ["Conv"]
    conv = node_of(function, "Conv")
    assert tuple(conv.attrs["pads"]) == (2, 3, 1, 2)
    assert tuple(conv.attrs["strides"]) == (2, 2)


def test_several_readers_each_pad():
    graph = Graph()
    padded = _padded(graph)
    first, second = (graph.op("Conv", padded, graph.weights(4, 3, 3, 3)) for _ in range(2))
    function = fires(graph.returning(graph.op("Add", first, second)), FoldPad())
    assert operators(function) == ["Conv", "Conv", "Add"]


@pytest.mark.parametrize(("counting", "own"), [(1, (1, 1, 1, 1)), (1, (0, 0, 0, 0)), (0, (0, 0, 0, 0))])
def test_average_pool(counting: int, own: tuple[int, ...]):
    graph = Graph()
    pooled = graph.op(
        "AveragePool", _padded(graph), kernel_shape=(4, 4), pads=own, count_include_pad=counting
    )
    function = fires(graph.returning(pooled), FoldPad())
    assert operators(function) == ["AveragePool"]
    assert node_of(function, "AveragePool").attrs["count_include_pad"] == 1


def test_max_pool_takes_padding_by_the_lowest_value():
    graph = Graph()
    pooled = graph.op("MaxPool", _padded(graph, -np.inf), kernel_shape=(3, 3), pads=(1, 0, 0, 1))
    function = fires(graph.returning(pooled), FoldPad())
    assert operators(function) == ["MaxPool"]


def test_max_pool_never_takes_padding_by_zero():
    graph = Graph()
    keeps(graph.returning(graph.op("MaxPool", _padded(graph), kernel_shape=(3, 3))), FoldPad())


@pytest.mark.parametrize(
    "attrs", [{"ceil_mode": 1}, {"pads": (1, 1, 1, 1)}, {"kernel_shape": (2, 2)}], ids=str
)
def test_average_pool_that_counts_differently_stays(attrs: dict[str, object]):
    graph = Graph()
    pooled = graph.op("AveragePool", _padded(graph), **{"kernel_shape": (3, 3), "strides": (2, 2), **attrs})
    keeps(graph.returning(pooled), FoldPad())


@pytest.mark.parametrize(
    "attrs",
    [
        {"mode": "reflect"},
        {"mode": "edge"},
        {"pads": (0, 0, -1, 0, 0, 0, 0, 0)},
        {"pads": (0, 0, 2, 0, 0, 0, -1, 0)},
        {"pads": (1, 0, 1, 1, 0, 0, 1, 1)},
    ],
    ids=str,
)
def test_other_padding_stays(attrs: dict[str, object]):
    graph = Graph()
    keeps(graph.returning(graph.op("Conv", _padded(graph, **attrs), graph.weights(4, 3, 3, 3))), FoldPad())


def test_padded_channels_stay():
    graph = Graph()
    padded = _padded(graph, pads=(0, 1, 0, 0, 0, 0, 0, 0))
    keeps(graph.returning(graph.op("Conv", padded, graph.weights(4, 4, 3, 3))), FoldPad())


def test_another_value_stays():
    graph = Graph()
    keeps(graph.returning(graph.op("Conv", _padded(graph, 1.0), graph.weights(4, 3, 3, 3))), FoldPad())


def test_padding_that_is_an_output_stays_too():
    graph = Graph()
    padded = _padded(graph)
    function = fires(graph.returning(padded, graph.op("Conv", padded, graph.weights(4, 3, 3, 3))), FoldPad())
    assert operators(function) == ["Pad", "Conv"]
