"""Gradient: against differences, rule by rule, and what is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes
from tilewright.graph.ir import Function
from tilewright.ops.evaluate import evaluate_function

TRAINING = "ai.onnx.preview.training"
Shapes = dict[str, tuple[int, ...]]


def differentiated(
    nodes: Sequence[onnx.NodeProto], shapes: Shapes, operands: Sequence[str] | None = None, **attributes: Any
) -> Function:
    """A model of the nodes, which make y, and of its gradients dx, dw, ..."""
    wanted = list(shapes) if operands is None else list(operands)
    given = [*wanted, *attributes.get("zs", [])]
    grad = [f"d{name}" for name in wanted]
    node = helper.make_node(
        "Gradient", given, grad, domain=TRAINING, name="grad", **({"xs": wanted, "y": "y"} | attributes)
    )
    inputs = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, None) for n in ("y", *grad)]
    graph = helper.make_graph([node, *nodes], "g", inputs, outputs)  # in any order
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return read_bytes(model.SerializeToString()).entry


def values(shapes: Shapes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    return {name: rng.uniform(0.3, 1.7, shape) for name, shape in shapes.items()}


def differences(function: Function, given: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The gradient of the sum of y, by central differences."""
    result = np.zeros(given[name].shape)
    for place in np.ndindex(*result.shape):
        sides = []
        for step in (1e-5, -1e-5):
            moved = given[name].copy()
            moved[place] += step
            sides.append(evaluate_function(function, {**given, name: moved})["y"].sum())
        result[place] = (sides[0] - sides[1]) / 2e-5
    return result


def check(nodes: Sequence[onnx.NodeProto], shapes: Shapes) -> None:
    function, given = differentiated(nodes, shapes), values(shapes)
    found = evaluate_function(function, given)
    for name in shapes:
        np.testing.assert_allclose(found[f"d{name}"], differences(function, given, name), 1e-6, 1e-8)


UNARY = (
    "Abs",
    "Cos",
    "Exp",
    "Log",
    "Neg",
    "Reciprocal",
    "Relu",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Sqrt",
    "Tanh",
)


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_operand(op: str) -> None:
    weigh = helper.make_node("Mul", ["t", "w"], ["y"])
    check([helper.make_node(op, ["x"], ["t"]), weigh], {"x": (2, 3), "w": (2, 3)})


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (4, 1, 3)), ((), (2, 2))])
def test_arithmetic_with_broadcasting(op: str, shapes: tuple[Any, Any]) -> None:
    check([helper.make_node(op, ["x", "w"], ["y"])], {"x": shapes[0], "w": shapes[1]})


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((1, 2, 3), (5, 3, 2))])
def test_products_of_matrices(shapes: tuple[Any, Any]) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Tanh", ["t"], ["y"])]
    check(nodes, {"x": shapes[0], "w": shapes[1]})


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_and_movement(op: str, keepdims: int) -> None:
    axes = onnx.numpy_helper.from_array(np.array([1]))
    nodes = [
        helper.make_node("Constant", [], ["axes"], value=axes),
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
        helper.make_node("Exp", ["t"], ["e"]),
        helper.make_node(op, ["e", "axes"], ["r"], keepdims=keepdims),
        helper.make_node("Flatten", ["r"], ["f"], axis=1),
        helper.make_node("Mul", ["f", "f"], ["y"]),
    ]
    check(nodes, {"x": (2, 3, 4)})


def test_a_value_used_twice_and_one_not_used() -> None:
    nodes = [helper.make_node("Mul", ["x", "x"], ["t"]), helper.make_node("Mul", ["t", "x"], ["y"])]
    shapes = {"x": (3,), "w": (2, 2)}
    given = values(shapes)
    found = evaluate_function(differentiated(nodes, shapes), given)
    np.testing.assert_allclose(found["dx"], 3 * given["x"] ** 2)
    np.testing.assert_array_equal(found["dw"], np.zeros((2, 2)))


def test_an_intermediate_value_is_independent() -> None:
    nodes = [helper.make_node("Mul", ["x", "x"], ["h"]), helper.make_node("Mul", ["h", "x"], ["y"])]
    given = values({"x": (3,)})
    found = evaluate_function(differentiated(nodes, {"x": (3,)}, ["h"], zs=["x"]), given)
    np.testing.assert_array_equal(found["dh"], given["x"])
    found = evaluate_function(differentiated(nodes, {"x": (3,)}, ["x"], zs=["h"]), given)
    np.testing.assert_allclose(found["dx"], given["x"] ** 2)


def test_an_operator_without_a_rule_is_refused() -> None:
    with pytest.raises(ImportModelError, match=r"node 'grad' \(Gradient\): node .* has no gradient rule"):
        differentiated([helper.make_node("Erf", ["x"], ["y"])], {"x": (3,)})


def test_other_values_than_the_named_ones_are_refused() -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    with pytest.raises(ImportModelError, match="must be the tensors that xs and zs name"):
        differentiated(nodes, {"x": (3,), "w": (3,)}, ["x", "w"], xs=["w", "x"])


def test_a_target_that_nothing_produces_is_refused() -> None:
    with pytest.raises(ImportModelError, match="y names 'x', which no node"):
        differentiated([helper.make_node("Neg", ["x"], ["y"])], {"x": (3,)}, y="x")
