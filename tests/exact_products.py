"""Models of products whose operands bf16 holds exactly, so that only sums round."""

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper


def held(shape, seed):
    """Random values of bf16, as float32."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def model(nodes, shape, constants, element=TensorProto.FLOAT):
    """The bytes of a model from `x`, of that element type, to `y`."""
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def convolution(shape, weights, attrs):
    """With a bias and Relu; the model, and what to feed it."""
    constants = {"w": held(weights, 0), "b": np.linspace(-1, 1, weights[0], dtype=np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], **attrs),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    return model(nodes, shape, constants), {"x": held(shape, 1)}
