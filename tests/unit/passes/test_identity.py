"""Removal of operators that hand on what they read."""

from collections.abc import Callable

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, operators

from tilewright.dtypes import BOOL, F32, F64, I32
from tilewright.graph.ir import Value
from tilewright.passes.identity import Identity
from tilewright.storage import Storage

Build = Callable[[Graph, Value], Value]

SAME: dict[str, Build] = {
    "identity": lambda g, x: g.op("Identity", x),
    "cast to its own type": lambda g, x: g.op("Cast", x, to=F32),
    "reshape": lambda g, x: g.op("Reshape", x, shape=(2, 3)),
    "expand": lambda g, x: g.op("Expand", x, shape=(2, 3)),
    "tile": lambda g, x: g.op("Tile", x, repeats=(1, 1)),
    "transpose": lambda g, x: g.op("Transpose", x, perm=(0, 1)),
    "slice": lambda g, x: g.op("Slice", x, starts=(0, 0), ends=(2, 3), axes=(0, 1), steps=(1, 1)),
    "pad": lambda g, x: g.op("Pad", x, pads=(0, 0, 0, 0)),
    "split": lambda g, x: g.op("Split", x, axis=1, sizes=(3,)),
    "concat": lambda g, x: g.op("Concat", x, axis=1),
    "clip": lambda g, x: g.op("Clip", x),
    "x + 0": lambda g, x: g.op("Add", x, g.constant(0.0)),
    "0 + x": lambda g, x: g.op("Add", g.constant(np.zeros((1, 3))), x),
    "x - 0": lambda g, x: g.op("Sub", x, g.constant(0.0)),
    "x * 1": lambda g, x: g.op("Mul", x, g.constant(np.ones(3))),
    "x / 1": lambda g, x: g.op("Div", x, g.constant(1.0)),
    "x ^ 1": lambda g, x: g.op("Pow", x, g.constant(1.0)),
    "max": lambda g, x: g.op("Max", x, g.constant(-np.inf)),
    "min": lambda g, x: g.op("Min", g.constant(np.inf), x),
    "where true": lambda g, x: g.op("Where", g.constant(np.ones(3, bool)), x, g.weights(3)),
    "where false": lambda g, x: g.op("Where", g.constant(np.zeros(3, bool)), g.weights(3), x),
    "neg neg": lambda g, x: g.op("Neg", g.op("Neg", x)),
    "pack unpack": lambda g, x: g.op("Unpack", g.op("Pack", x, storage=Storage("ba"))),
    "sum over no axis": lambda g, x: g.op("ReduceSum", x, axes=(), keepdims=True),
}

DIFFERENT: dict[str, Build] = {
    "a cast": lambda g, x: g.op("Cast", x, to=F64),
    "a cast that flushes": lambda g, x: g.op("Cast", x, to=F32, flush=True),
    "reversed": lambda g, x: g.op("Slice", x, starts=(0, 2), ends=(2, -1), axes=(0, 1), steps=(1, -1)),
    "a square transposed": lambda g, x: g.op("Transpose", g.op("MatMul", x, g.weights(3, 2)), perm=(1, 0)),
    "pads that cancel": lambda g, x: g.op("Pad", x, pads=(0, 1, 0, -1)),
    "0 - x": lambda g, x: g.op("Sub", g.constant(0.0), x),
    "1 / x": lambda g, x: g.op("Div", g.constant(1.0), x),
    "x * 0": lambda g, x: g.op("Mul", x, g.constant(0.0)),
    "x + 0 that repeats x": lambda g, x: g.op("Add", x, g.constant(np.zeros((4, 2, 3)))),
    "not all ones": lambda g, x: g.op("Mul", x, g.constant(np.array([1.0, 1.0, 2.0]))),
    "a sum that drops an axis": lambda g, x: g.op("ReduceSum", x, axes=(1,), keepdims=False),
    "clip": lambda g, x: g.op("Clip", x, g.constant(0.0)),
}


@pytest.mark.parametrize("name", SAME)
def test_is_removed(name: str):
    graph = Graph()
    x = graph.input(2, 3)
    function = fires(graph.returning(graph.op("Tanh", SAME[name](graph, x))), Identity())
    assert operators(function) == ["Tanh"]
    assert function.nodes[0].operand(0) is x


@pytest.mark.parametrize("name", DIFFERENT)
def test_is_kept(name: str):
    graph = Graph()
    x = graph.input(2, 3)
    keeps(graph.returning(DIFFERENT[name](graph, x)), Identity())


def test_integers_and_booleans():
    graph = Graph()
    x, flag = graph.input(3, dtype=I32), graph.input(3, name="flag", dtype=BOOL)
    added = graph.op("Add", x, graph.constant(np.zeros(3, np.int32)))
    both = graph.op("Or", graph.op("And", flag, graph.constant(True)), graph.constant(False))
    function = fires(graph.returning(graph.op("Neg", added), graph.op("Not", both)), Identity())
    assert operators(function) == ["Neg", "Not"]


def test_a_placeholder_may_become_an_output_and_names_stay():
    graph = Graph()
    x = graph.input(2)
    function = fires(graph.returning(graph.op("Identity", x), x), Identity())
    assert function.outputs == [x, x]
    assert function.output_names == ["y0", "y1"]


def test_axes_of_extent_one_need_no_reduction():
    graph = Graph()
    x = graph.input(2, 1, 3)
    summed = graph.op("ReduceMean", x, axes=(1,), keepdims=True)
    assert operators(fires(graph.returning(graph.op("Relu", summed)), Identity())) == ["Relu"]


def test_pack_into_another_storage_stays():
    graph = Graph()
    x = graph.input(2, 3)
    keeps(graph.returning(graph.op("Relu", graph.op("Pack", x, storage=Storage("ba")))), Identity())
