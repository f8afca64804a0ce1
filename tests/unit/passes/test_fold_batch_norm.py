"""Batch normalisation and per-channel arithmetic in front of weights."""

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, node_of, operators

from tilewright.graph.ir import Constant
from tilewright.passes.fold_batch_norm import FoldBatchNorm


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_conv(group: int, bias: bool):
    graph = Graph()
    x = graph.input(2, 4, 6, 5)
    operands = [graph.weights(6, 4 // group, 3, 3), *([graph.weights(6)] if bias else [])]
    y = graph.op("Conv", x, *operands, group=group, pads=(1, 1, 1, 1))
    function = fires(graph.returning(graph.batch_norm(y, 6)), FoldBatchNorm())
    assert operators(function) == ["Conv"]
    conv = node_of(function, "Conv")
    assert conv.origin == ("conv_0", "batchnormalization_1")
    assert conv.attrs["pads"] == (1, 1, 1, 1)


@pytest.mark.parametrize("group", [1, 2])
def test_conv_transpose_scales_the_output_axis_of_each_group(group: int):
    """MNN issue 2916: with groups, the output channels are spread over both leading axes of the weights."""
    graph = Graph()
    x = graph.input(1, 4, 5, 5)
    y = graph.op(
        "ConvTranspose", x, graph.weights(4, 2, 3, 3), group=group, strides=(2, 2), pads=(1, 1, 1, 1)
    )
    function = fires(graph.returning(graph.batch_norm(y, 2 * group)), FoldBatchNorm())
    assert operators(function) == ["ConvTranspose"]


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [None, (5,), (3, 5), (1, 5), ()])
def test_gemm(transposed: int, bias: tuple[int, ...] | None):
    graph = Graph()
    weights = graph.weights(5, 4) if transposed else graph.weights(4, 5)
    operands = [weights, *([] if bias is None else [graph.weights(*bias)])]
    y = graph.op("Gemm", graph.input(3, 4), *operands, transB=transposed, alpha=0.5, beta=2.0)
    function = fires(graph.returning(graph.batch_norm(y, 5)), FoldBatchNorm())
    assert operators(function) == ["Gemm"]


def test_matmul_becomes_gemm():
    graph = Graph()
    y = graph.op("MatMul", graph.input(3, 4), graph.weights(4, 5))
    function = fires(graph.returning(graph.op("Add", graph.weights(5), y)), FoldBatchNorm())
    assert operators(function) == ["Gemm"]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1), (), (1, 1)])
def test_per_channel_arithmetic(op: str, shape: tuple[int, ...]):
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 4, 3, 3), graph.weights(6, 4, 1, 1))
    function = fires(graph.returning(graph.op(op, y, graph.weights(*shape))), FoldBatchNorm())
    assert operators(function) == ["Conv"]


def test_constant_minus_result():
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 4, 3, 3), graph.weights(6, 4, 1, 1), graph.weights(6))
    function = fires(graph.returning(graph.op("Sub", graph.weights(6, 1, 1), y)), FoldBatchNorm())
    assert operators(function) == ["Conv"]


def test_a_whole_chain():
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 4, 3, 3), graph.weights(6, 4, 1, 1))
    y = graph.op("Mul", graph.op("Add", y, graph.weights(6, 1, 1)), graph.weights(6, 1, 1))
    function = fires(graph.returning(graph.batch_norm(y, 6)), FoldBatchNorm())
    assert operators(function) == ["Conv"]


def test_arithmetic_is_rounded_once():
    graph = Graph()
    weights = graph.weights(2, 1, 1, 1)
    y = graph.op("Conv", graph.input(1, 1, 1, 1), weights)
    vectors = [graph.constant(np.array(pair)) for pair in ([0.1, 3.3], [0.7, 9.0], [5.1, 2.0], [0.3, 7.7])]
    function = graph.returning(graph.op("BatchNormalization", y, *vectors, epsilon=1e-3))
    scale, bias, mean, variance = (vector.data.astype(np.float64) for vector in vectors)
    factor = scale / np.sqrt(variance + 1e-3)
    assert FoldBatchNorm().run(function)
    _, new_weights, new_bias = node_of(function, "Conv").inputs
    assert isinstance(new_weights, Constant)
    assert isinstance(new_bias, Constant)
    wanted = (weights.data.astype(np.float64) * factor.reshape(2, 1, 1, 1)).astype(np.float32)
    np.testing.assert_array_equal(new_weights.data, wanted)
    np.testing.assert_array_equal(new_bias.data, (bias - mean * factor).astype(np.float32))


def _conv(graph: Graph):
    return graph.op("Conv", graph.input(1, 4, 3, 3), graph.weights(6, 4, 1, 1))


def test_not_when_something_else_reads_the_result():
    graph = Graph()
    y = _conv(graph)
    keeps(graph.returning(graph.op("Add", graph.batch_norm(y, 6), y)), FoldBatchNorm())


def test_not_when_the_result_is_an_output():
    """ONNX Runtime issue 4110: a tensor that is also an output was swallowed."""
    graph = Graph()
    y = _conv(graph)
    keeps(graph.returning(graph.batch_norm(y, 6), y), FoldBatchNorm())


def test_not_with_weights_that_are_inputs():
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 4, 3, 3), graph.input(6, 4, 1, 1, name="w"))
    keeps(graph.returning(graph.batch_norm(y, 6)), FoldBatchNorm())


def test_not_with_a_bias_that_is_an_input():
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 4, 3, 3), graph.weights(6, 4, 1, 1), graph.input(6, name="b"))
    keeps(graph.returning(graph.batch_norm(y, 6)), FoldBatchNorm())


@pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 6, 3, 3), (2, 6, 3, 3)])
def test_not_along_other_axes(shape: tuple[int, ...]):
    graph = Graph()
    keeps(graph.returning(graph.op("Mul", _conv(graph), graph.weights(*shape))), FoldBatchNorm())


def test_not_a_quotient_by_the_result_or_by_zero():
    graph = Graph()
    inverse = graph.op("Div", graph.weights(6, 1, 1), _conv(graph))
    keeps(graph.returning(inverse), FoldBatchNorm())
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 4, 3, 3), graph.weights(1, 4, 1, 1))
    function = graph.returning(graph.op("Div", y, graph.constant(0.0)))
    assert not FoldBatchNorm().run(function)


def test_not_a_matmul_of_rank_three():
    graph = Graph()
    y = graph.op("MatMul", graph.input(2, 3, 4), graph.weights(4, 5))
    keeps(graph.returning(graph.batch_norm(y, 3)), FoldBatchNorm())
