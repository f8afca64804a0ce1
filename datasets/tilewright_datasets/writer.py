"""Writes ONNX graphs the way exporters do: one node per layer, weights as initialisers, opset 17."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

OPSET = 17
# ONNX IR version 8 is the one that opset 17 came with; fixed so that the bytes do not depend on the installed
# onnx.
IR_VERSION = 8


class Draws:
    """Seeded random tensors that come out bit for bit the same on every machine and with every NumPy.

    A normal value is approximated by the sum of eight 16-bit integers out of PCG64's raw stream (which NumPy
    keeps stable), minus its mean, times a float32 factor: integers and one IEEE product, no libm.
    """

    _SUMMANDS = 8
    _BLOCK = 1 << 20

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def normal(self, shape: Sequence[int], std: float) -> Array:
        """float32 values of mean 0 and standard deviation `std`, bounded by 4.9 `std`."""
        # Variance of one 16-bit uniform integer: (65536² − 1) / 12.
        factor = np.float32(std / math.sqrt(self._SUMMANDS * (65536**2 - 1) / 12))
        flat = np.empty(math.prod(shape), np.float32)
        for start in range(0, flat.size, self._BLOCK):
            part = flat[start : start + self._BLOCK]
            sums = _sums_of_eight(self._bits.random_raw(2 * part.size))
            np.multiply((sums - self._SUMMANDS * 65535 // 2).astype(np.float32), factor, out=part)
        return flat.reshape(tuple(shape))

    def uniform(self, shape: Sequence[int], low: float, high: float) -> Array:
        """float32 values, uniform over 65536 steps from `low` to `high`."""
        steps = (self._bits.random_raw(math.prod(shape)) >> np.uint64(48)).astype(np.float32)
        return (np.float32(low) + steps * np.float32((high - low) / 65535)).reshape(tuple(shape))


def _sums_of_eight(words: Array) -> Array:
    """int64 sums of the eight 16-bit integers in each two neighbouring 64-bit words."""
    lanes = np.uint64(0x0000FFFF0000FFFF)
    halves = (words & lanes) + ((words >> np.uint64(16)) & lanes)  # two 17-bit sums per word
    quarters = halves[0::2] + halves[1::2]
    sums = (quarters & np.uint64(0xFFFFFFFF)) + (quarters >> np.uint64(32))
    return sums.astype(np.int64)


class GraphWriter:
    """Collects nodes and initialisers; every method returns the name of the tensor it adds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> str:
        """Declare a graph input."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> None:
        """Declare a graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def weight(self, name: str, value: Array) -> str:
        """Add an initialiser; the same name twice is a mistake of the builder."""
        if name in self.weights:
            raise ValueError(f"weight '{name}' is defined twice")
        self.weights[name] = value
        return name

    def node(
        self, op: str, name: str, inputs: Sequence[str], output: str | None = None, **attributes: Any
    ) -> str:
        """Add a node `name` of operator `op`; its one output is `output`, else called after the node."""
        result = output or f"{name}_out"
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=name, **attributes))
        return result

    def conv(
        self,
        name: str,
        x: str,
        weight: Array,
        bias: Array | None,
        *,
        stride: int,
        pads: Sequence[int],
        group: int = 1,
    ) -> str:
        """2-D convolution; `weight` is OIHW, `pads` is (top, left, bottom, right)."""
        inputs = [x, self.weight(f"{name}.weight", weight)]
        if bias is not None:
            inputs.append(self.weight(f"{name}.bias", bias))
        kernel = list(weight.shape[2:])
        return self.node(
            "Conv",
            name,
            inputs,
            kernel_shape=kernel,
            strides=[stride, stride],
            pads=list(pads),
            dilations=[1, 1],
            group=group,
        )

    def batch_norm(
        self, name: str, x: str, gamma: Array, beta: Array, mean: Array, var: Array, epsilon: float
    ) -> str:
        """Inference batch normalisation with stored statistics."""
        values = {"weight": gamma, "bias": beta, "running_mean": mean, "running_var": var}
        inputs = [x, *(self.weight(f"{name}.{key}", value) for key, value in values.items())]
        return self.node("BatchNormalization", name, inputs, epsilon=epsilon, momentum=0.9)

    def relu6(self, name: str, x: str) -> str:
        """Clip to [0, 6]; the bounds are two scalars that all Clip nodes share."""
        self.weights.setdefault("clip_min", np.array(0, np.float32))
        self.weights.setdefault("clip_max", np.array(6, np.float32))
        return self.node("Clip", name, [x, "clip_min", "clip_max"])

    def classifier_head(self, x: str, weight: Array, bias: Array) -> None:
        """Global average, flatten, fully connected (`weight` [classes, features]), softmax: output `prob`."""
        x = self.node("GlobalAveragePool", "pool", [x])
        x = self.node("Flatten", "flatten", [x], axis=1)
        x = self.linear("fc", x, weight, bias)
        self.probabilities(x, weight.shape[0])

    def linear(self, name: str, x: str, weight: Array, bias: Array) -> str:
        """Fully connected layer; `weight` is [outputs, inputs]."""
        inputs = [x, self.weight(f"{name}.weight", weight), self.weight(f"{name}.bias", bias)]
        return self.node("Gemm", name, inputs, alpha=1.0, beta=1.0, transB=1)

    def probabilities(self, x: str, classes: int) -> None:
        """Softmax over the classes as graph output `prob`, float32 [1, classes]."""
        self.node("Softmax", "softmax", [x], output="prob", axis=1)
        self.output("prob", [1, classes])

    def model(self) -> onnx.ModelProto:
        """The finished, checked model; weights are raw data in the order in which they were added."""
        initialisers = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        graph = helper.make_graph(self.nodes, self.name, self._inputs, self._outputs, initialisers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="tilewright"
        )
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model
