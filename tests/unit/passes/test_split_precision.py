"""Products of float32 as products of bf16 planes: which, and how exact they are."""

import ml_dtypes
import numpy as np
import pytest
from pass_checks import Graph, keeps, operators, random_inputs

from tilewright.dtypes import BF16, F32
from tilewright.graph.ir import Constant
from tilewright.ops.evaluate import evaluate_function
from tilewright.ops.planes import PLANE_PAIRS, planes_of
from tilewright.passes.split_precision import SplitPrecision
from tilewright.passes.verify import verify_function

FLOAT32 = 6e-7  # error of a short sum in float32


class Always:
    """A target for which products of planes pay."""

    def __init__(self, algorithm="split"):
        self.algorithm = algorithm

    def algorithms(self, node):
        return {"direct": 2.0, self.algorithm: 1.0} if node.operand(0).dtype == F32 else {}


class Never(Always):
    def algorithms(self, node):
        return {"direct": 1.0, self.algorithm: 2.0}


def conv(graph, x, columns=8, **attrs):
    return graph.op("Conv", x, graph.weights(columns, x.shape[1], 1, 1), strides=(1, 1), **attrs)


def error_of(function):
    """Runs the pass; the relative L2 error of the results against float64."""
    inputs = {name: a.astype(np.float32) for name, a in random_inputs(function).items()}
    before = evaluate_function(function, inputs, np.float64)
    assert SplitPrecision(Always()).run(function)
    verify_function(function)
    assert not SplitPrecision(Always()).run(function)
    after = evaluate_function(function, inputs)
    return max(np.linalg.norm(after[name] - y) / np.linalg.norm(y) for name, y in before.items())


@pytest.mark.parametrize(
    ("op", "shape", "weights", "attrs"),
    [
        ("Conv", (2, 6, 5, 5), (4, 6, 3, 3), {"strides": (1, 1), "pads": (1, 1, 1, 1)}),
        ("MatMul", (2, 3, 6), (6, 5), {}),
        ("Gemm", (3, 6), (5, 6), {"transB": 1, "alpha": 0.5}),
        ("Gemm", (3, 6), (6, 5), {}),
    ],
)
def test_planes_stand_along_the_axis_that_is_summed(op, shape, weights, attrs):
    graph = Graph()
    function = graph.returning(graph.op(op, graph.input(*shape), graph.weights(*weights), **attrs))
    assert error_of(function) < FLOAT32
    node = function.nodes[-1]
    assert node.op == op
    assert [v.dtype for v in node.inputs[:2]] == [BF16, BF16]
    assert node.output.dtype == F32
    assert node.operand(1).type.size == len(PLANE_PAIRS) * np.prod(weights)
    assert isinstance(node.operand(1), Constant)


def test_an_operand_of_two_products_is_split_once():
    graph = Graph()
    x = graph.op("Relu", graph.input(1, 8, 4, 4))
    function = graph.returning(conv(graph, x), conv(graph, x, columns=4))
    assert error_of(function) < FLOAT32
    assert operators(function) == ["Relu", *["Cast", "Cast", "Sub"] * 2, "Cast", "Concat", "Conv", "Conv"]


def test_a_bias_stays():
    graph = Graph()
    x, w = graph.input(1, 6, 4, 4), graph.weights(4, 6, 1, 1)
    function = graph.returning(graph.op("Conv", x, w, graph.weights(4, name="b"), strides=(1, 1)))
    assert error_of(function) < FLOAT32
    assert len(function.nodes[-1].inputs) == 3


@pytest.mark.parametrize("costs", [Never(), Always("bf16"), Always("winograd")])
def test_nothing_is_split_without_the_target_s_word(costs):
    graph = Graph()
    keeps(graph.returning(conv(graph, graph.input(1, 8, 4, 4))), SplitPrecision(costs))


def test_what_is_left_alone():
    graph = Graph()
    x, a = graph.input(1, 8, 4, 4), graph.input(4, 4, name="a")
    grouped = graph.op("Conv", x, graph.weights(8, 4, 1, 1), group=2, strides=(1, 1))
    computed = graph.op("MatMul", a, graph.op("Relu", a))
    keeps(graph.returning(grouped, computed), SplitPrecision(Always()))


def test_planes_hold_a_number():
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    planes = planes_of(x)
    assert all(plane.dtype == ml_dtypes.bfloat16 for plane in planes)
    np.testing.assert_array_equal(sum(plane.astype(np.float64) for plane in planes), x)
