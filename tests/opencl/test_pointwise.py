"""Element-wise operators of which OpenCL C has another form than the CPU: one model, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.targets.opencl.target import OpenClTarget

WHOLE = ("INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64")


def test_results_equal_numpy(target: OpenClTarget, tmp_path: Path) -> None:
    """Functions within a few last places; remainders, shifts, questions and casts exactly."""
    x = np.array(
        [-np.inf, -3e9, -300, -1.5, -1e-3, -0.0, 1e-4, 0.75, 2.5, 88, 3e9, 1e19, np.inf, np.nan], np.float32
    )
    d = np.resize(np.array([3, -0.7, 1e-30, np.inf], np.float32), x.shape)
    i = np.array([-128, 127, -1, 1, 5, 64, -7, 3], np.int8)
    n = np.array([1, 7, 8, -1, 0, 2, 100, 3], np.int8)
    inputs = {"x": x, "d": d, "i": i, "n": n}
    nodes: list[Any] = [
        helper.make_node(op, ["x"], [op]) for op in ("Atan", "Elu", "Sinh", "Asinh", "IsNaN", "IsInf")
    ]
    nodes += [helper.make_node("Mod", ["x", "d"], [f"Mod{fmod}"], fmod=fmod) for fmod in (0, 1)]
    nodes += [helper.make_node("BitShift", ["i", "n"], [side], direction=side) for side in ("LEFT", "RIGHT")]
    nodes += [helper.make_node("Cast", ["x"], [to], to=getattr(TensorProto, to)) for to in WHOLE]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [helper.make_tensor_value_info(node.output[0], TensorProto.UNDEFINED, None) for node in nodes]
    graph = helper.make_graph(nodes, "pointwise", infos, results)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)]).SerializeToString()
    found = tw.compile(data, target="opencl", cache_dir=tmp_path).run(inputs)
    wanted = tw.compile(data, target="numpy").run(inputs)
    for name, expected in wanted.items():
        exact = name in ("IsNaN", "IsInf", "Mod0", "Mod1", "LEFT", "RIGHT", *WHOLE)
        np.testing.assert_allclose(found[name], expected, rtol=0 if exact else 1e-6, atol=0, err_msg=name)
