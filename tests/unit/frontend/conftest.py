"""Builds tiny ONNX models, reads them and evaluates the graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.frontend.onnx_reader import read_bytes
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.verify import verify_function

Arrays = Mapping[str, np.ndarray]
Build = Callable[..., onnx.ModelProto]


def _build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    outputs: Sequence[str],
    constants: Arrays | None = None,
    opset: int = 17,
    output_kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model whose outputs are declared by element type alone; unchecked: the reader has its own guards."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, output_kind, None) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", infos, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _run(model: onnx.ModelProto, inputs: Arrays, **options: Any) -> dict[str, np.ndarray]:
    module = read_bytes(model.SerializeToString(), **options)
    verify_function(module.entry)
    wanted = {value.name for value in module.entry.inputs}
    return evaluate_function(module.entry, {k: v for k, v in inputs.items() if k in wanted})


@pytest.fixture
def build() -> Build:
    """build(nodes, inputs, outputs, constants, opset) -> ModelProto."""
    return _build


@pytest.fixture
def run() -> Callable[..., dict[str, np.ndarray]]:
    """run(model, inputs) -> results by output name, from the verified and evaluated graph."""
    return _run


@pytest.fixture
def one() -> Callable[..., np.ndarray]:
    """one(op, inputs, constants, opset, **attributes) -> the result of a model of one node.

    Operands are the inputs, then the constants; an operand whose array is None is omitted.
    """

    def evaluate(
        op: str,
        inputs: Arrays,
        constants: Mapping[str, np.ndarray | None] | None = None,
        opset: int = 17,
        output_kind: int = TensorProto.FLOAT,
        **attributes: Any,
    ) -> np.ndarray:
        given = constants or {}
        operands = [*inputs, *(name if array is not None else "" for name, array in given.items())]
        node = helper.make_node(op, operands, ["y"], name="n", **attributes)
        tensors = {name: array for name, array in given.items() if array is not None}
        return _run(_build([node], inputs, ["y"], tensors, opset, output_kind), inputs)["y"]

    return evaluate
