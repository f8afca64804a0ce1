"""Winograd's algorithm: the pass, the operator's meaning, and that it stays out of what it does not suit."""

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, operators

import tilewright.ops.all
from tilewright.dtypes import F32
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function
from tilewright.ops.evaluate import evaluate_function
from tilewright.ops.operator import REGISTRY, Builder
from tilewright.ops.winograd import transform_weights
from tilewright.ops.winograd_matrices import FILTERINGS
from tilewright.passes.verify import verify_function
from tilewright.passes.winograd import Winograd
from tilewright.tensor.evaluate import evaluate_tensors
from tilewright.tensor.ir import placeholder
from tilewright.types import TensorType

assert tilewright.ops.all


class Always:
    """A target for which Winograd always pays."""

    def wish(self, node):
        return None

    def algorithms(self, node):
        return {"direct": 9.4, "winograd": 4.0}


class InFours(Always):
    """A target for which tiles of 4 x 4 results are the best."""

    def algorithms(self, node):
        return {"direct": 9.4, "winograd": 4.0, "winograd4": 2.25}


class Never(Always):
    """A target for which it never does."""

    def algorithms(self, node):
        return {"direct": 9.0, "winograd": 9.0}


def convolution(size, kernel=3, strides=(1, 1), dilations=(1, 1), group=1, pads=(1, 1, 1, 1), constant=True):
    function = Function("main")
    builder = Builder(function)
    rng = np.random.default_rng(0)
    x = function.add_input("x", TensorType(F32, (2, 4, *size)))
    weights = rng.standard_normal((6, 4 // group, kernel, kernel)).astype(np.float32)
    w = function.constant(weights) if constant else function.add_input("w", TensorType(F32, weights.shape))
    bias = function.constant(rng.standard_normal(6).astype(np.float32))
    y = builder.op("Conv", x, w, bias, strides=strides, dilations=dilations, group=group, pads=pads)
    function.outputs, function.output_names = [y], ["y"]
    return function


@pytest.mark.parametrize("tile", FILTERINGS)
def test_the_matrices_are_those_of_minimal_filtering(tile):
    rng, f = np.random.default_rng(1), FILTERINGS[tile]
    d, g = rng.standard_normal(tile + 2), rng.standard_normal(3)
    y = np.asarray(f.output) @ ((np.asarray(f.weights) @ g) * (np.asarray(f.input) @ d))
    np.testing.assert_allclose(y, np.correlate(d, g, "valid"), rtol=1e-12)


@pytest.mark.parametrize("tile", FILTERINGS)
def test_what_runs_in_float32_has_exact_matrices(tile):
    for matrix in (FILTERINGS[tile].input, FILTERINGS[tile].output):
        np.testing.assert_array_equal(np.asarray(matrix, np.float32), np.asarray(matrix))


@pytest.mark.parametrize("target", [Always(), InFours()])
@pytest.mark.parametrize("size", [(8, 8), (7, 5), (3, 3), (1, 1), (2, 9)])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 2, 2, 1), (2, 2, 2, 2)])
def test_equals_the_convolution(size, pads, target):
    function = convolution(size, pads=pads)
    feeds = {"x": np.random.default_rng(2).standard_normal((2, 4, *size))}
    feeds = {"x": feeds["x"].astype(np.float32)}
    expected = evaluate_function(function, feeds, np.dtype("float64"))["y"]
    assert Winograd(target).run(function)
    (node,) = function.nodes
    assert (node.op, node.attrs["tile"]) == ("WinogradConv", 4 if isinstance(target, InFours) else 2)
    result = evaluate_function(function, feeds, np.dtype("float64"))["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)  # weights are rounded once
    tensors = [placeholder(v.shape, v.dtype, f"x{i}") for i, v in enumerate(node.inputs)]
    arrays = {"x0": feeds["x"], "x1": node.inputs[1].data, "x2": node.inputs[2].data}
    outputs = REGISTRY[node.op].compute(tensors, node.attrs, [node.output.type])
    np.testing.assert_allclose(evaluate_tensors(outputs, arrays)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": 5, "pads": (2, 2, 2, 2)},
        {"strides": (2, 2)},
        {"dilations": (2, 2), "pads": (2, 2, 2, 2)},
        {"group": 2},
        {"constant": False},
    ],
)
def test_leaves_other_convolutions_alone(options):
    function = convolution((8, 8), **options)
    assert not Winograd(Always()).run(function)
    assert [node.op for node in function.nodes] == ["Conv"]


@pytest.mark.parametrize("tile", FILTERINGS)
def test_weights_are_transformed_in_double_precision(tile):
    w = np.random.default_rng(3).standard_normal((5, 3, 3, 3)).astype(np.float32)
    u = transform_weights(w, tile)
    g = np.asarray(FILTERINGS[tile].weights)
    exact = np.einsum("xi,ocij,yj->xyoc", g, w.astype(np.float64), g).reshape(-1, 5, 3)
    assert u.dtype == np.float32
    np.testing.assert_array_equal(u, exact.astype(np.float32))


def test_tiles_of_other_sides_are_refused():
    function = convolution((8, 8))
    Winograd(Always()).run(function)
    function.nodes[0].attrs["tile"] = 3
    with pytest.raises(VerifyError, match="no tiles of side 3; known sides: 2, 4"):
        verify_function(function)


@pytest.mark.parametrize("bias", [True, False])
def test_the_pass_keeps_names_and_numbers(bias):
    graph = Graph()
    weights, rest = graph.weights(4, 4, 3, 3), [graph.weights(4)] if bias else []
    sizes = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "group": 1}
    y = graph.op("Conv", graph.input(1, 4, 5, 5), weights, *rest, **sizes)
    function = graph.returning(graph.op("Relu", y))
    name, origin = function.nodes[0].name, function.nodes[0].origin
    fires(function, Winograd(Always()))
    assert operators(function) == ["WinogradConv", "Relu"]
    assert (function.nodes[0].name, function.nodes[0].origin) == (name, origin)


def test_not_where_the_target_expects_no_gain():
    keeps(convolution((8, 8)), Winograd(Never()))


@pytest.mark.parametrize(
    ("target", "chosen", "cycles"),
    [
        (Always(), "winograd", {"direct": 9, "winograd": 4}),
        (Never(), "direct", {"direct": 9, "winograd": 9}),
    ],
)
def test_the_costs_that_were_compared_are_noted(target, chosen, cycles):
    function = convolution((8, 8))
    Winograd(target).run(function)
    assert function.nodes[0].notes["algorithm"] == {"chosen": chosen, "cycles": cycles}
