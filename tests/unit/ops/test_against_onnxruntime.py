"""The NumPy meaning against ONNX Runtime, for the cases where that is a safe oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from operator_cases import Case, all_cases

import tilewright.ops.all  # noqa: F401
from tilewright.dtypes import DType
from tilewright.ops.operator import REGISTRY
from tilewright.types import TensorType

OPSET = 22
INT64 = np.dtype(np.int64)
DIRECT = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Less",
        "LessOrEqual",
        "Greater",
        "GreaterOrEqual",
        "Where",
        "Clip",
        "Pow",
        "Mod",
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "MatMul",
        "Gemm",
        "Softmax",
        "LogSoftmax",
        "Relu",
        "LeakyRelu",
        "Elu",
        "Sigmoid",
        "Softplus",
        "HardSigmoid",
        "HardSwish",
        "Gelu",
        "Tanh",
        "Exp",
        "Log",
        "Sqrt",
        "Erf",
        "Floor",
        "Ceil",
        "Round",
        "Sin",
        "Cos",
        "Reciprocal",
        "Abs",
        "Neg",
        "Sign",
        "Not",
        "Transpose",
        "Concat",
        "Gather",
        "DepthToSpace",
        "LSTM",
        "BatchNormalization",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Cosh",
        "Sinh",
        "Tan",
        "Celu",
        "Selu",
        "ThresholdedRelu",
        "Mish",
        "Shrink",
        "Softsign",
        "IsNaN",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "BitwiseNot",
        "DynamicQuantizeLinear",
    ]
)
AS_OPERANDS = {
    "Reshape": ("shape",),
    "Expand": ("shape",),
    "Tile": ("repeats",),
    "Slice": ("starts", "ends", "axes", "steps"),
    "ReduceSum": ("axes",),
    "ReduceMean": ("axes",),
    "ReduceMax": ("axes",),
    "ReduceMin": ("axes",),
    "ReduceProd": ("axes",),
    "Pad": ("pads",),
}
RENAMED = {"alphas": "activation_alpha", "betas": "activation_beta"}


def comparable(case: Case) -> bool:
    """Leave out what the two sides define differently, or what ONNX Runtime does not implement."""
    attrs, arrays = case.attrs, [a for a in case.operands if a is not None]
    if case.op not in DIRECT and case.op not in AS_OPERANDS:
        return False
    if any(a.dtype not in (np.float32, np.int64, np.int32, np.bool_) for a in arrays):
        return False
    unordered = any(a.dtype.kind == "f" and not np.isfinite(a).all() for a in arrays)
    if unordered and case.op in (
        "ReduceMax",
        "ReduceMin",
        "MaxPool",
        "Sign",
        "Gelu",
        "Elu",
        "Softmax",
        "LogSoftmax",
    ):
        return False  # NaN and infinity: see the NumPy rule
    if case.op == "Pad":
        simple = attrs["pads"] and min(attrs["pads"]) >= 0 and max(attrs["pads"]) < 3
        return bool(simple) and attrs.get("mode", "constant") in ("constant", "edge")
    if case.op.startswith("Reduce"):
        return bool(attrs["axes"]) and arrays[0].size > 0 and "Prod" not in case.op
    if case.op == "Slice":
        return not (-1 in attrs["ends"] and case.operands[0].ndim > 1)  # type: ignore[union-attr]
    if case.op == "Mod" and arrays[0].dtype.kind == "f" and not attrs["fmod"]:
        return False  # defined from opset 28 on
    if case.op in ("Pow", "Relu") and arrays[0].dtype.kind == "i":
        return False  # not implemented there
    if case.op in ("MaxPool", "AveragePool") and "pads" in attrs:
        return max(attrs["pads"]) < min(attrs["kernel_shape"])  # dilation does not count there
    if case.op == "Transpose" and not attrs["perm"]:
        return False  # ONNX cannot write an empty list
    if case.op == "LSTM" and attrs.get("clip"):
        return False  # the cell state enters an activation too, and ONNX Runtime does not clip it
    if case.op == "Clip":
        return all(a.ndim == 0 for a in arrays[1:]) and arrays[0].dtype == np.float32
    return True


def run_onnx(case: Case) -> list[np.ndarray]:
    attrs = {
        RENAMED.get(k, k): _onnx_value(v)
        for k, v in case.attrs.items()
        if k not in AS_OPERANDS.get(case.op, ())
    }
    if "activations" in attrs:
        attrs["activations"] = attrs["activations"].split()
    operands: list[np.ndarray | None] = list(case.operands)
    extra = [np.asarray(case.attrs[k], INT64) for k in AS_OPERANDS.get(case.op, ())]
    if case.op == "Slice":
        extra[1] = np.where(extra[1] < 0, np.iinfo(np.int64).min, extra[1])
    operands[1:1] = extra
    if case.op == "Reshape":
        attrs["allowzero"] = 1
    feeds = {f"x{i}": a for i, a in enumerate(operands) if a is not None}
    names = ["" if a is None else f"x{i}" for i, a in enumerate(operands)]
    outputs = [o.name for o in REGISTRY[case.op].outputs]
    node = helper.make_node(case.op, names, outputs, **attrs)
    kinds = {k: helper.np_dtype_to_tensor_dtype(a.dtype) for k, a in feeds.items()}
    graph = helper.make_graph(
        [node],
        "case",
        [helper.make_tensor_value_info(k, kinds[k], a.shape) for k, a in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    types = REGISTRY[case.op].infer([None if a is None else _type(a) for a in case.operands], case.attrs)
    for value, type in zip(graph.output, types, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(type.dtype.numpy)
        value.type.CopyFrom(helper.make_tensor_type_proto(kind, type.shape))
    model.graph.CopyFrom(graph)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, feeds)
    return results


def _type(array: np.ndarray) -> TensorType:
    return TensorType(DType.of(array.dtype), array.shape)


def _onnx_value(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("case", [c for c in all_cases() if comparable(c)], ids=str)
def test_onnxruntime_agrees(case: Case) -> None:
    ours = REGISTRY[case.op].evaluate(case.operands, case.attrs)
    for found, expected in zip(ours, run_onnx(case), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, max(case.rtol, 1e-4), 1e-5, equal_nan=True)
