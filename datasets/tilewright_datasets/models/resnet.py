"""ResNet-18 and ResNet-50 (He et al., arXiv 1512.03385) in torchvision's v1.5 layout: stride in the 3×3."""

import onnx

from tilewright_datasets.calibrate import measure_batch_norms
from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter

_STAGE_WIDTHS = (64, 128, 256, 512)


def resnet18(seed: int) -> onnx.ModelProto:
    """Two basic blocks per stage; 1.81 GMAC at 1×3×224×224."""
    return _resnet("resnet18", seed, blocks=(2, 2, 2, 2), bottleneck=False)


def resnet50(seed: int) -> onnx.ModelProto:
    """Bottleneck blocks 3, 4, 6, 3; 4.1 GMAC at 1×3×224×224."""
    return _resnet("resnet50", seed, blocks=(3, 4, 6, 3), bottleneck=True)


def _resnet(name: str, seed: int, blocks: tuple[int, ...], bottleneck: bool) -> onnx.ModelProto:
    graph, draws = GraphWriter(name), Draws(seed)
    x = graph.input("data", [1, 3, 224, 224])
    x = layers.conv_batch_norm(graph, draws, "stem", x, (3, 64), kernel=7, stride=2)
    x = graph.node("Relu", "stem.relu", [x])
    x = graph.node("MaxPool", "stem.pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    block = _bottleneck_block if bottleneck else _basic_block
    for stage, (count, width) in enumerate(zip(blocks, _STAGE_WIDTHS, strict=True), start=1):
        for index in range(count):
            stride = 2 if stage > 1 and index == 0 else 1
            x, channels = block(graph, draws, f"layer{stage}.{index}", x, channels, width, stride)
    weight, bias = layers.dense(draws, layers.CLASSES, channels), layers.small_bias(draws, layers.CLASSES)
    graph.classifier_head(x, weight, bias)
    measure_batch_norms(graph, layers.sample_images(draws))
    return graph.model()


def _basic_block(
    graph: GraphWriter, draws: Draws, name: str, x: str, channels: int, width: int, stride: int
) -> tuple[str, int]:
    y = layers.conv_batch_norm(graph, draws, f"{name}.1", x, (channels, width), kernel=3, stride=stride)
    y = graph.node("Relu", f"{name}.1.relu", [y])
    y = layers.conv_batch_norm(graph, draws, f"{name}.2", y, (width, width), kernel=3)
    return _join(graph, draws, name, x, y, (channels, width), stride), width


def _bottleneck_block(
    graph: GraphWriter, draws: Draws, name: str, x: str, channels: int, width: int, stride: int
) -> tuple[str, int]:
    y = layers.conv_batch_norm(graph, draws, f"{name}.1", x, (channels, width), kernel=1)
    y = graph.node("Relu", f"{name}.1.relu", [y])
    y = layers.conv_batch_norm(graph, draws, f"{name}.2", y, (width, width), kernel=3, stride=stride)
    y = graph.node("Relu", f"{name}.2.relu", [y])
    y = layers.conv_batch_norm(graph, draws, f"{name}.3", y, (width, 4 * width), kernel=1)
    return _join(graph, draws, name, x, y, (channels, 4 * width), stride), 4 * width


def _join(
    graph: GraphWriter, draws: Draws, name: str, x: str, y: str, channels: tuple[int, int], stride: int
) -> str:
    if stride != 1 or channels[0] != channels[1]:
        x = layers.conv_batch_norm(graph, draws, f"{name}.downsample", x, channels, kernel=1, stride=stride)
    return graph.node("Relu", f"{name}.relu", [graph.node("Add", f"{name}.add", [y, x])])
