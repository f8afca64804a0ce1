"""The Atari network of Deep Q-Networks (Mnih et al., Nature 2015), 18 actions."""

import onnx

from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter

_CONVOLUTIONS = ((4, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))  # input, output, kernel, stride
_ACTIONS = 18


def dqn(seed: int) -> onnx.ModelProto:
    """Input `data` 1×4×84×84 (four frames), output `q_values` 1×18; 0.01 GMAC."""
    graph, draws = GraphWriter("dqn"), Draws(seed)
    x = graph.input("data", [1, 4, 84, 84])
    for index, (inputs, outputs, kernel, stride) in enumerate(_CONVOLUTIONS, start=1):
        weight, bias = layers.he_conv(draws, outputs, inputs, kernel), layers.small_bias(draws, outputs)
        x = graph.conv(f"conv{index}", x, weight, bias, stride=stride, pads=(0, 0, 0, 0))
        x = graph.node("Relu", f"relu{index}", [x])
    x = graph.node("Flatten", "flatten", [x], axis=1)
    x = graph.linear("fc1", x, layers.dense(draws, 512, 64 * 7 * 7), layers.small_bias(draws, 512))
    x = graph.node("Relu", "relu4", [x])
    x = graph.linear("fc2", x, layers.dense(draws, _ACTIONS, 512), layers.small_bias(draws, _ACTIONS))
    graph.nodes[-1].output[0] = "q_values"
    graph.output("q_values", [1, _ACTIONS])
    return graph.model()
