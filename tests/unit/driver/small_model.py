"""A small model as an ONNX file."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def make_model(path, scale=1.0, batch=2):
    """relu(x @ w + b) with a named or a numbered batch."""
    w = (np.arange(12, dtype=np.float32).reshape(3, 4) - 5) * scale
    b = np.linspace(-1, 1, 4, dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["xw"], name="product"),
            helper.make_node("Add", ["xw", "b"], ["s"], name="sum"),
            helper.make_node("Relu", ["s"], ["y"], name="relu"),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
