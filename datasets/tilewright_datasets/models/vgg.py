"""VGG-19 (Simonyan and Zisserman, arXiv 1409.1556, configuration E) without batch normalisation."""

import onnx

from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter

_STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # channels and number of 3×3 convolutions
_HIDDEN = 4096


def vgg19(seed: int) -> onnx.ModelProto:
    """16 convolutions with bias, then 4096, 4096, 1000; 19.6 GMAC at 1×3×224×224; 575 MB of weights."""
    graph, draws = GraphWriter("vgg19"), Draws(seed)
    x = graph.input("data", [1, 3, 224, 224])
    channels = 3
    for stage, (outputs, count) in enumerate(_STAGES, start=1):
        for index in range(1, count + 1):
            name = f"conv{stage}_{index}"
            weight, bias = layers.he_conv(draws, outputs, channels, 3), layers.small_bias(draws, outputs)
            x = graph.conv(name, x, weight, bias, stride=1, pads=(1, 1, 1, 1))
            x = graph.node("Relu", f"relu{stage}_{index}", [x])
            channels = outputs
        x = graph.node("MaxPool", f"pool{stage}", [x], kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    x = graph.node("Flatten", "flatten", [x], axis=1)
    for name, inputs in (("fc6", channels * 7 * 7), ("fc7", _HIDDEN)):
        x = graph.linear(name, x, layers.dense(draws, _HIDDEN, inputs), layers.small_bias(draws, _HIDDEN))
        x = graph.node("Relu", f"{name}.relu", [x])
    weight, bias = layers.dense(draws, layers.CLASSES, _HIDDEN), layers.small_bias(draws, layers.CLASSES)
    graph.probabilities(graph.linear("fc8", x, weight, bias), layers.CLASSES)
    return graph.model()
