"""Models of many independent nodes: one compilation checks a whole table of operators on one element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
FLOATS = (np.dtype(np.float32), np.dtype(np.float64), *HALVES)
INTEGERS = tuple(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
OPSET = 28


def model(
    nodes: Sequence[Any], inputs: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray]
) -> bytes:
    """A model whose outputs are the results of all nodes. A node's operands name inputs and constants."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [
        helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
        for node in nodes
        for name in node.output
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "table", infos, results, tensors)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)]).SerializeToString())


def compiled(data: bytes, inputs: Mapping[str, np.ndarray], cache: Path) -> dict[str, np.ndarray]:
    """What generated code computes."""
    return dict(tw.compile(data, target="cpu", threads=1, cache_dir=cache).run(inputs))


def meaning(data: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What NumPy computes, in the model's own element types."""
    return dict(tw.compile(data, target="numpy").run(inputs))


def places(dtype: np.dtype[Any]) -> float:
    """The relative size of one unit in the last place."""
    return 2.0**-7 if dtype == HALVES[1] else float(np.finfo(dtype).eps)


def near(found: np.ndarray, wanted: np.ndarray, ulps: float, context: str) -> None:
    """Equal for integers and booleans; floats differ by a few last places, never by a NaN or infinity."""
    assert found.dtype == wanted.dtype, context
    assert found.shape == wanted.shape, context
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted, err_msg=context)
        return
    eps = places(found.dtype) * ulps
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=eps, atol=eps * 1e-3, equal_nan=True, err_msg=context)
