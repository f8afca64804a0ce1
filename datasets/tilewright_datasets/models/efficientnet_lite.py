"""EfficientNet-Lite 0, 1 and 2 with their ImageNet weights.

No squeeze-excite, ReLU6 for Swish, TensorFlow's SAME padding. The weights come as a flat state dict
(`_conv_stem.weight`, `_blocks.N._expand_conv.weight`, …). SAME padding puts the odd pixel at the bottom and
right, so layers of stride 2 get asymmetric explicit pads.
"""

import math
from dataclasses import dataclass

import onnx

from tilewright.errors import DataError
from tilewright_datasets.models.layers import CLASSES
from tilewright_datasets.writer import Array, GraphWriter

_EPSILON = 1e-3
_STEM = 32


@dataclass(frozen=True)
class _Stage:
    """`repeats` inverted-residual blocks of `channels`; the first one has the stride."""

    kernel: int
    stride: int
    expansion: int
    channels: int
    repeats: int


_STAGES = (
    _Stage(3, 1, 1, 16, 1),
    _Stage(3, 2, 6, 24, 2),
    _Stage(5, 2, 6, 40, 2),
    _Stage(3, 2, 6, 80, 3),
    _Stage(5, 1, 6, 112, 3),
    _Stage(5, 2, 6, 192, 4),
    _Stage(3, 1, 6, 320, 1),
)


class _Builder:
    """The graph, the weights not used yet, and the current tensor with its spatial size."""

    def __init__(self, graph: GraphWriter, state: dict[str, Array], x: str, size: int) -> None:
        self.graph, self.state, self.x, self.size = graph, dict(state), x, size

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        value = self.state.pop(name, None)
        if value is None or value.shape != shape:
            found = "missing" if value is None else f"of shape {value.shape}"
            raise DataError(f"weights of {self.graph.name}: tensor '{name}' is {found}, expected {shape}")
        return value

    def conv(
        self, name: str, channels: tuple[int, int], kernel: int, stride: int = 1, group: int = 1
    ) -> None:
        """SAME convolution without bias, (input, output) channels."""
        inputs, outputs = channels
        weight = self.take(f"{name}.weight", (outputs, inputs // group, kernel, kernel))
        pads, self.size = _same_pads(self.size, kernel, stride)
        self.x = self.graph.conv(name, self.x, weight, None, stride=stride, pads=pads, group=group)

    def batch_norm(self, name: str, channels: int) -> None:
        keys = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mean, variance = (self.take(f"{name}.{key}", (channels,)) for key in keys)
        self.state.pop(f"{name}.num_batches_tracked", None)
        self.x = self.graph.batch_norm(name, self.x, gamma, beta, mean, variance, _EPSILON)

    def relu6(self, name: str) -> None:
        self.x = self.graph.relu6(name, self.x)


def efficientnet_lite(
    name: str, state: dict[str, Array], size: int, width: float, depth: float
) -> onnx.ModelProto:
    """Input `data` 1×3×size×size, output `prob` 1×1000.

    `width` scales channels (not those of stem and head), `depth` scales repeats (not those of the first and
    last stage). Raises DataError when a tensor of `state` is missing, has another shape, or is left over.
    """
    graph = GraphWriter(name)
    builder = _Builder(graph, state, graph.input("data", [1, 3, size, size]), size)
    builder.conv("_conv_stem", (3, _STEM), 3, stride=2)
    builder.batch_norm("_bn0", _STEM)
    builder.relu6("_relu0")
    channels, index = _STEM, 0
    for position, stage in enumerate(_STAGES):
        outputs = _scaled_channels(stage.channels, width)
        scaled = 0 < position < len(_STAGES) - 1
        repeats = math.ceil(stage.repeats * depth) if scaled else stage.repeats
        for repeat in range(repeats):
            _block(builder, f"_blocks.{index}", stage, channels, outputs, stage.stride if repeat == 0 else 1)
            channels, index = outputs, index + 1
    builder.conv("_conv_head", (channels, 1280), 1)
    builder.batch_norm("_bn1", 1280)
    builder.relu6("_relu1")
    weight, bias = builder.take("_fc.weight", (CLASSES, 1280)), builder.take("_fc.bias", (CLASSES,))
    if builder.state:
        raise DataError(f"weights of {name}: tensors that no layer uses: {sorted(builder.state)}")
    graph.classifier_head(builder.x, weight, bias)
    return graph.model()


def _block(builder: _Builder, name: str, stage: _Stage, inputs: int, outputs: int, stride: int) -> None:
    """Inverted residual: expand 1×1, depthwise, project 1×1, and the skip connection if shapes allow it."""
    entry, hidden = builder.x, inputs * stage.expansion
    if stage.expansion != 1:
        builder.conv(f"{name}._expand_conv", (inputs, hidden), 1)
        builder.batch_norm(f"{name}._bn0", hidden)
        builder.relu6(f"{name}._relu0")
    builder.conv(f"{name}._depthwise_conv", (hidden, hidden), stage.kernel, stride, group=hidden)
    builder.batch_norm(f"{name}._bn1", hidden)
    builder.relu6(f"{name}._relu1")
    builder.conv(f"{name}._project_conv", (hidden, outputs), 1)
    builder.batch_norm(f"{name}._bn2", outputs)
    if stride == 1 and inputs == outputs:
        builder.x = builder.graph.node("Add", f"{name}._add", [builder.x, entry])


def _scaled_channels(channels: int, width: float) -> int:
    """Channels times width, to the nearest multiple of 8 that is not more than 10 % below."""
    scaled = channels * width
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded


def _same_pads(size: int, kernel: int, stride: int) -> tuple[tuple[int, int, int, int], int]:
    """((top, left, bottom, right), output size) of a square SAME convolution."""
    output = -(-size // stride)
    total = max((output - 1) * stride + kernel - size, 0)
    before, after = total // 2, total - total // 2
    return (before, before, after, after), output
