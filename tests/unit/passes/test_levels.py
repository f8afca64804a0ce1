"""All optimisation levels compute the same, whatever the target wishes."""

from collections.abc import Callable

import numpy as np
import pytest
from pass_checks import Graph, fused, random_inputs

from tilewright.config import CompileOptions
from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.verify import verify_function
from tilewright.pipeline import passes_for
from tilewright.storage import PLAIN, Storage, Wish
from tilewright.targets.numpy.target import NumpyTarget


class _ChannelsLast(NumpyTarget):
    """Wishes what CPU templates wish: channels innermost, weights in blocks, padding as a halo."""

    def wish(self, node: Node) -> Wish | None:
        if node.op == "Conv":
            pads = node.attrs["pads"]
            halo = ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])) if any(pads) else ()
            return Wish((Storage("acdb"), Storage("Acdb4a"), None), Storage("acdb"), halo)
        return Wish((PLAIN, Storage("Ba4b"), PLAIN), PLAIN) if node.op in ("Gemm", "MatMul") else None


def _classifier(graph: Graph) -> Function:
    """Convolution, normalisation, a residual block, pooling, a linear layer."""
    x = graph.input(2, 3, 10, 10)
    stem = graph.op("Relu", graph.batch_norm(_conv(graph, x, 3, 4), 4))
    pooled = graph.op("MaxPool", stem, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    block = graph.op(
        "Clip", graph.batch_norm(_conv(graph, pooled, 4, 4), 4), graph.constant(0.0), graph.constant(6.0)
    )
    block = graph.batch_norm(_conv(graph, block, 4, 4), 4)
    joined = graph.op("Relu", graph.op("Add", block, pooled))
    means = graph.op("Reshape", graph.op("GlobalAveragePool", joined), shape=(2, 4))
    scores = graph.op("Gemm", means, graph.weights(5, 4), graph.weights(5), transB=1)
    return graph.returning(graph.op("Softmax", scores, axis=1), joined)


def _conv(graph: Graph, x: Value, channels: int, filters: int) -> Value:
    weights = graph.weights(filters, channels, 3, 3)
    ones = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1)}
    return graph.op("Conv", x, weights, **ones)


def _channels_last_model(graph: Graph) -> Function:
    """As exported from a framework that keeps channels last: transposes around every convolution."""
    x = graph.input(1, 6, 6, 3)
    y: Value = x
    for channels in (3, 4):
        y = graph.op("Transpose", y, perm=(0, 3, 1, 2))
        y = graph.op("Transpose", _conv(graph, y, channels, 4), perm=(0, 2, 3, 1))
        y = graph.op("Relu", graph.op("Add", y, graph.weights(4)))
    return graph.returning(graph.op("ReduceMean", y, axes=(1, 2), keepdims=False))


def _generator(graph: Graph) -> Function:
    x = graph.input(1, 6, 4, 4)
    y = graph.op("ConvTranspose", x, graph.weights(6, 4, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1))
    y = graph.op("Relu", graph.batch_norm(y, 4))
    y = graph.op("ConvTranspose", y, graph.weights(4, 3, 3, 3), strides=(2, 2), output_padding=(1, 1))
    return graph.returning(graph.op("Tanh", y))


def _language_model(graph: Graph) -> Function:
    x = graph.input(4, 2, 3)
    y, h, c = graph.ops(
        "LSTM",
        x,
        graph.weights(2, 20, 3),
        graph.weights(2, 20, 5),
        graph.weights(2, 40),
        hidden_size=5,
        direction="bidirectional",
    )
    merged = graph.op("Reshape", graph.op("Transpose", y, perm=(0, 2, 1, 3)), shape=(4, 2, 10))
    return graph.returning(
        graph.op("Add", graph.op("MatMul", merged, graph.weights(10, 7)), graph.weights(7)), h, c
    )


def _gated(graph: Graph) -> Function:
    """Swish and squeeze-and-excitation: diamonds of which one can be fused."""
    c = _conv(graph, graph.input(1, 3, 6, 6), 3, 4)
    swish = graph.op("Mul", c, graph.op("Sigmoid", c))
    squeezed = graph.op("GlobalAveragePool", swish)
    ones = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}
    gate = graph.op(
        "HardSigmoid", graph.op("Conv", squeezed, graph.weights(4, 4, 1, 1), graph.weights(4), **ones)
    )
    padded = graph.op("Pad", graph.op("Mul", swish, gate), pads=(0, 0, 1, 1, 0, 0, 0, 1))
    return graph.returning(_conv(graph, padded, 4, 2), gate)


MODELS: dict[str, Callable[[Graph], Function]] = {
    "classifier": _classifier,
    "channels last": _channels_last_model,
    "generator": _generator,
    "language model": _language_model,
    "gated": _gated,
}
TARGETS = {"plain": NumpyTarget, "channels last": _ChannelsLast}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", MODELS)
def test_all_levels_agree(model: str, target: str):
    kernels = []
    for level in range(4):
        function = MODELS[model](Graph())
        inputs = random_inputs(function)
        wanted = evaluate_function(function, inputs, np.dtype(np.float64))
        _compile(function, level, (), target)
        for name, found in evaluate_function(function, inputs).items():
            np.testing.assert_allclose(found, wanted[name], rtol=1e-4, atol=1e-5)
        kernels.append(sum(node.op != "Reshape" for node in function.nodes))
    assert kernels[1] <= kernels[0]
    assert kernels[2] < kernels[1]


@pytest.mark.parametrize("model", MODELS)
def test_without_fusion_and_storage_nothing_is_fused_or_packed(model: str):
    function = MODELS[model](Graph())
    _compile(function, 3, ("fusion", "storage"), "channels last")
    assert {"Fused", "Pack", "Unpack"}.isdisjoint(node.op for node in function.nodes)


def test_storages_do_not_stop_fusion():
    """A halo belongs to the last node of a kernel, not to its convolution: both still become one kernel."""
    function = _classifier(Graph())
    _compile(function, 3, (), "channels last")
    groups = fused(function)
    assert ["Conv", "Relu"] in groups
    assert ["Conv", "Max", "Min"] in groups
    assert ["Conv", "Add", "Relu"] in groups


def _compile(function: Function, level: int, without: tuple[str, ...], target: str) -> None:
    options = CompileOptions(target="numpy")
    for item in passes_for(level, without, TARGETS[target](None, options)):
        item.run(function)
        verify_function(function)
