"""MobileNet v1 (Howard et al., arXiv 1704.04861) and v2 (Sandler et al., arXiv 1801.04381), width 1.0."""

import onnx

from tilewright_datasets.calibrate import measure_batch_norms
from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter

_V1_PAIRS = (  # output channels and stride of each depthwise-separable pair
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)
_V2_STAGES = (  # expansion, output channels, repeats, stride of the first
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
_V2_HEAD = 1280


def mobilenet_v1(seed: int) -> onnx.ModelProto:
    """13 depthwise-separable pairs with ReLU; 0.57 GMAC at 1×3×224×224."""
    graph, draws = GraphWriter("mobilenet_v1"), Draws(seed)
    x = graph.input("data", [1, 3, 224, 224])
    x = layers.conv_batch_norm(graph, draws, "stem", x, (3, 32), kernel=3, stride=2)
    x = graph.node("Relu", "stem.relu", [x])
    channels = 32
    for index, (outputs, stride) in enumerate(_V1_PAIRS, start=1):
        depthwise, pointwise = f"pair{index}.depthwise", f"pair{index}.pointwise"
        pair = (channels, channels)
        x = layers.conv_batch_norm(graph, draws, depthwise, x, pair, kernel=3, stride=stride, group=channels)
        x = graph.node("Relu", f"{depthwise}.relu", [x])
        x = layers.conv_batch_norm(graph, draws, pointwise, x, (channels, outputs), kernel=1)
        x = graph.node("Relu", f"{pointwise}.relu", [x])
        channels = outputs
    return _finish(graph, draws, x, channels)


def mobilenet_v2(seed: int) -> onnx.ModelProto:
    """17 inverted residuals with ReLU6 (Clip 0–6); 0.30 GMAC at 1×3×224×224."""
    graph, draws = GraphWriter("mobilenet_v2"), Draws(seed)
    x = graph.input("data", [1, 3, 224, 224])
    x = layers.conv_batch_norm(graph, draws, "stem", x, (3, 32), kernel=3, stride=2)
    x = graph.relu6("stem.relu6", x)
    channels, index = 32, 0
    for expansion, outputs, repeats, first_stride in _V2_STAGES:
        for repeat in range(repeats):
            index += 1
            stride = first_stride if repeat == 0 else 1
            x = _inverted_residual(graph, draws, f"block{index}", x, (channels, outputs), expansion, stride)
            channels = outputs
    x = layers.conv_batch_norm(graph, draws, "head", x, (channels, _V2_HEAD), kernel=1)
    x = graph.relu6("head.relu6", x)
    return _finish(graph, draws, x, _V2_HEAD)


def _inverted_residual(
    graph: GraphWriter,
    draws: Draws,
    name: str,
    x: str,
    channels: tuple[int, int],
    expansion: int,
    stride: int,
) -> str:
    inputs, outputs = channels
    hidden, y = inputs * expansion, x
    if expansion != 1:
        y = layers.conv_batch_norm(graph, draws, f"{name}.expand", y, (inputs, hidden), kernel=1)
        y = graph.relu6(f"{name}.expand.relu6", y)
    depthwise, pair = f"{name}.depthwise", (hidden, hidden)
    y = layers.conv_batch_norm(graph, draws, depthwise, y, pair, kernel=3, stride=stride, group=hidden)
    y = graph.relu6(f"{depthwise}.relu6", y)
    y = layers.conv_batch_norm(graph, draws, f"{name}.project", y, (hidden, outputs), kernel=1)
    if stride == 1 and inputs == outputs:
        y = graph.node("Add", f"{name}.add", [x, y])
    return y


def _finish(graph: GraphWriter, draws: Draws, x: str, features: int) -> onnx.ModelProto:
    weight, bias = layers.dense(draws, layers.CLASSES, features), layers.small_bias(draws, layers.CLASSES)
    graph.classifier_head(x, weight, bias)
    measure_batch_norms(graph, layers.sample_images(draws))
    return graph.model()
