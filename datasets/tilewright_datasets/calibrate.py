"""Batch-normalisation statistics by measurement: one seeded batch is walked through the graph, node by node.

Everything is evaluated in float64 and each statistic is then rounded to 11 significant bits. Float32 sums
differ between CPUs in their last bits, which would land on both sides of a rounding step now and then;
float64 sums agree to about 1e-14, so the rounded value, and with it the file, is the same everywhere.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tilewright_datasets.writer import Array, GraphWriter

_SIGNIFICANT_BITS = 11
Attributes = dict[str, Any]


def measure_batch_norms(graph: GraphWriter, batch: Array) -> None:
    """Replace the mean and variance of every BatchNormalization of `graph` by those of `batch` at that place.

    `batch` is the value of the graph's first input, [N, C, H, W]. Nodes after the last BatchNormalization are
    not evaluated.
    """
    last = max(index for index, node in enumerate(graph.nodes) if node.op_type == "BatchNormalization")
    nodes = graph.nodes[: last + 1]
    readers = Counter(name for node in nodes for name in node.input)
    values: dict[str, Array] = {nodes[0].input[0]: batch.astype(np.float64)}
    for node in nodes:
        if node.op_type == "BatchNormalization":
            _measure(graph, node, values[node.input[0]])
        operands = [
            values[name] if name in values else graph.weights[name].astype(np.float64) for name in node.input
        ]
        values[node.output[0]] = _EVALUATE[node.op_type](_attributes(node), *operands)
        readers.subtract(node.input)
        for name in node.input:
            if readers[name] == 0:
                values.pop(name, None)


def _attributes(node: onnx.NodeProto) -> Attributes:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _measure(graph: GraphWriter, node: onnx.NodeProto, x: Array) -> None:
    mean_name, variance_name = node.input[3:5]
    graph.weights[mean_name] = _rounded(x.mean(axis=(0, 2, 3)))
    graph.weights[variance_name] = _rounded(x.var(axis=(0, 2, 3)))


def _rounded(values: Array) -> Array:
    mantissa, exponent = np.frexp(values)
    scale = 1 << _SIGNIFICANT_BITS
    rounded: Array = np.ldexp(np.rint(mantissa * scale) / scale, exponent).astype(np.float32)
    return rounded


def _conv(attributes: Attributes, x: Array, weight: Array) -> Array:
    top, left, bottom, right = attributes["pads"]
    stride = attributes["strides"][0]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    if attributes["group"] == 1:
        return np.moveaxis(np.tensordot(windows, weight, axes=((1, 4, 5), (1, 2, 3))), 3, 1)
    if weight.shape[1] != 1:
        raise NotImplementedError("only depthwise grouped convolutions are measured")
    return _depthwise(windows, weight)


def _depthwise(windows: Array, weight: Array) -> Array:
    result = np.zeros(windows.shape[:4])
    for row in range(weight.shape[2]):
        for column in range(weight.shape[3]):
            result += windows[..., row, column] * weight[None, :, 0, row, column, None, None]
    return result


def _conv_transpose(attributes: Attributes, x: Array, weight: Array) -> Array:
    top, left, bottom, right = attributes["pads"]
    stride = attributes["strides"][0]
    batch, _, height, width = x.shape
    _, channels, kernel_h, kernel_w = weight.shape
    full = np.zeros((batch, channels, (height - 1) * stride + kernel_h, (width - 1) * stride + kernel_w))
    for row in range(kernel_h):
        for column in range(kernel_w):
            spread = np.moveaxis(np.tensordot(x, weight[:, :, row, column], axes=((1,), (0,))), 3, 1)
            rows = slice(row, row + (height - 1) * stride + 1, stride)
            columns = slice(column, column + (width - 1) * stride + 1, stride)
            full[:, :, rows, columns] += spread
    return full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]


def _batch_norm(
    attributes: Attributes, x: Array, gamma: Array, beta: Array, mean: Array, var: Array
) -> Array:
    scale = gamma / np.sqrt(var + attributes["epsilon"])
    result: Array = x * scale[:, None, None] + (beta - mean * scale)[:, None, None]
    return result


def _max_pool(attributes: Attributes, x: Array) -> Array:
    top, left, bottom, right = attributes["pads"]
    stride = attributes["strides"][0]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, attributes["kernel_shape"], axis=(2, 3))
    result: Array = windows[:, :, ::stride, ::stride].max(axis=(4, 5))
    return result


_EVALUATE: dict[str, Callable[..., Array]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _batch_norm,
    "MaxPool": _max_pool,
    "Relu": lambda attributes, x: np.maximum(x, 0),
    "Clip": lambda attributes, x, low, high: np.clip(x, low, high),
    "Add": lambda attributes, a, b: a + b,
}
