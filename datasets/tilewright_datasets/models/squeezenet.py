"""SqueezeNet 1.1 (Iandola et al., arXiv 1602.07360 and its release 1.1)."""

import onnx

from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter

# Squeeze and expand channels of each fire; None is a 3×3/2 pool that rounds its output size up.
_BODY = (
    *(None, (16, 64), (16, 64)),
    *(None, (32, 128), (32, 128)),
    *(None, (48, 192), (48, 192), (64, 256), (64, 256)),
)


def squeezenet1_1(seed: int) -> onnx.ModelProto:
    """Eight fire modules, three pools with `ceil_mode`, 1×1 classifier; 0.35 GMAC at 1×3×224×224."""
    graph, draws = GraphWriter("squeezenet1_1"), Draws(seed)
    x = graph.input("data", [1, 3, 224, 224])
    x = _conv_relu(graph, draws, "conv1", x, (3, 64), kernel=3, pad=0, stride=2)
    channels = 64
    for index, part in enumerate(_BODY, start=2):
        if part is None:
            x = graph.node(
                "MaxPool", f"pool{index}", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[0] * 4, ceil_mode=1
            )
            continue
        squeeze, expand = part
        name = f"fire{index}"
        x = _conv_relu(graph, draws, f"{name}.squeeze", x, (channels, squeeze), kernel=1)
        narrow = _conv_relu(graph, draws, f"{name}.expand1x1", x, (squeeze, expand), kernel=1)
        wide = _conv_relu(graph, draws, f"{name}.expand3x3", x, (squeeze, expand), kernel=3, pad=1)
        x = graph.node("Concat", f"{name}.concat", [narrow, wide], axis=1)
        channels = 2 * expand
    x = _conv_relu(graph, draws, "classifier", x, (channels, layers.CLASSES), kernel=1)
    x = graph.node("GlobalAveragePool", "pool", [x])
    x = graph.node("Flatten", "flatten", [x], axis=1)
    graph.probabilities(x, layers.CLASSES)
    return graph.model()


def _conv_relu(
    graph: GraphWriter,
    draws: Draws,
    name: str,
    x: str,
    channels: tuple[int, int],
    *,
    kernel: int,
    pad: int = 0,
    stride: int = 1,
) -> str:
    inputs, outputs = channels
    weight, bias = layers.he_conv(draws, outputs, inputs, kernel), layers.small_bias(draws, outputs)
    x = graph.conv(name, x, weight, bias, stride=stride, pads=(pad,) * 4)
    return graph.node("Relu", f"{name}.relu", [x])
