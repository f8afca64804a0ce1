"""The single layers of table2.py as QLinearConv: bytes in, bytes out."""

from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto

from tilewright_datasets.models import layers, table2
from tilewright_datasets.models.table2 import Layer
from tilewright_datasets.writer import Draws, GraphWriter

INT8_LAYERS = tuple(replace(layer, name=f"{layer.name}_int8") for layer in table2.LAYERS)

ZERO = np.uint8(128)
SCALE = np.float32(1 / 64)
# Of random bytes (standard deviation 74) by He's weights: 128 steps of the result are three deviations.
RESULT_SCALE = np.float32(2.5 / 64)


def quantised_layer(layer: Layer, seed: int) -> onnx.ModelProto:
    """Input `data` and output `out` u8 with zero point 128; the layer's weights in i8 by output channel."""
    graph, draws = GraphWriter(layer.name), Draws(seed)
    x = graph.input("data", [1, layer.inputs, layer.size, layer.size], TensorProto.UINT8)
    group = layer.inputs if layer.outputs is None else 1
    weight = layers.he_conv(draws, layer.channels, layer.inputs // group, layer.kernel)
    scales = np.abs(weight).max(axis=(1, 2, 3)) / np.float32(127)
    bias = np.rint(layers.small_bias(draws, layer.channels) / (SCALE * scales))
    values = {
        "data.scale": SCALE,
        "data.zero": ZERO,
        "conv.weight": np.rint(weight / scales.reshape(-1, 1, 1, 1)).astype(np.int8),
        "conv.scale": scales,
        "conv.zero": np.zeros(layer.channels, np.int8),
        "out.scale": RESULT_SCALE,
        "out.zero": ZERO,
        "conv.bias": bias.astype(np.int32),
    }
    operands = [x, *(graph.weight(name, np.asarray(value)) for name, value in values.items())]
    window = {"kernel_shape": [layer.kernel] * 2, "strides": [layer.stride] * 2, "pads": list(layer.pads)}
    graph.node("QLinearConv", "conv", operands, "out", **window, dilations=[1, 1], group=group)
    graph.output("out", [1, layer.channels, layer.result, layer.result], TensorProto.UINT8)
    return graph.model()
