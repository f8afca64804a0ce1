"""The single layers of TVM's Table 2 (Chen et al., arXiv 1802.04799) as models of one node in float32.

The paper gives shapes and SAME padding; bias, weights and names are ours. A stride of 2 makes SAME padding
asymmetric, as in TensorFlow: the odd row and column stand at the end.
"""

from dataclasses import dataclass

import onnx

from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter


@dataclass(frozen=True)
class Layer:
    """A convolution with a square input of `size`; depthwise when `outputs` is None."""

    name: str
    size: int
    inputs: int
    outputs: int | None
    kernel: int
    stride: int

    @property
    def channels(self) -> int:
        """Channels of the result."""
        return self.inputs if self.outputs is None else self.outputs

    @property
    def result(self) -> int:
        """Height and width of the result."""
        return -(-self.size // self.stride)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a run; those on padding count too."""
        terms = self.kernel**2 * (1 if self.outputs is None else self.inputs)
        return self.result**2 * self.channels * terms

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right)."""
        total = max(0, (self.result - 1) * self.stride + self.kernel - self.size)
        return (total // 2, total // 2, total - total // 2, total - total // 2)


# Height and width, input channels, output channels, kernel, stride.
_CONVOLUTIONS = (
    *((224, 3, 64, 7, 2), (56, 64, 64, 3, 1), (56, 64, 64, 1, 1), (56, 64, 128, 3, 2), (56, 64, 128, 1, 2)),
    *((28, 128, 128, 3, 1), (28, 128, 256, 3, 2), (28, 128, 256, 1, 2), (14, 256, 256, 3, 1)),
    *((14, 256, 512, 3, 2), (14, 256, 512, 1, 2), (7, 512, 512, 3, 1)),
)
# Height and width, channels, stride; the kernel is 3×3.
_DEPTHWISE = (
    *((112, 32, 1), (112, 64, 2), (56, 128, 1), (56, 128, 2), (28, 256, 1), (28, 256, 2)),
    *((14, 512, 1), (14, 512, 2), (7, 1024, 1)),
)

LAYERS = (
    *(Layer(f"tvm_c{number}", *shape) for number, shape in enumerate(_CONVOLUTIONS, 1)),
    *(Layer(f"tvm_d{number}", h, c, None, 3, s) for number, (h, c, s) in enumerate(_DEPTHWISE, 1)),
)


def single_layer(layer: Layer, seed: int) -> onnx.ModelProto:
    """Input `data` [1, inputs, size, size], output `out`, both NCHW; He-normal weights, small biases."""
    graph, draws = GraphWriter(layer.name), Draws(seed)
    x = graph.input("data", [1, layer.inputs, layer.size, layer.size])
    group = layer.inputs if layer.outputs is None else 1
    weight = layers.he_conv(draws, layer.channels, layer.inputs // group, layer.kernel)
    bias = layers.small_bias(draws, layer.channels)
    graph.conv("conv", x, weight, bias, stride=layer.stride, pads=layer.pads, group=group)
    graph.nodes[-1].output[0] = "out"
    graph.output("out", [1, layer.channels, layer.result, layer.result])
    return graph.model()
