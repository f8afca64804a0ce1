"""A small convolutional model as an ONNX file, and an empty cache."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def make_network(path, seed=0):
    """conv, relu, max pool, global average, fully connected: a classifier of ten classes."""
    random = np.random.default_rng(seed)
    weights = {
        "w": random.standard_normal((8, 3, 3, 3), np.float32) / 5,
        "b": random.standard_normal(8, np.float32),
        "f": random.standard_normal((8, 10), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["v"], name="flat"),
        helper.make_node("MatMul", ["v", "f"], ["y"], name="classes"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def network(tmp_path):
    return make_network(tmp_path / "network.onnx")


@pytest.fixture
def retrained(tmp_path):
    """The same network with other weights."""
    return make_network(tmp_path / "retrained.onnx", seed=1)


@pytest.fixture
def image():
    return np.random.default_rng(1).standard_normal((1, 3, 12, 12), np.float32)


@pytest.fixture
def cache_dir(tmp_path):
    return tmp_path / "cache"
