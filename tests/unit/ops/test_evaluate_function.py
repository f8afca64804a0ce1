"""Running whole functions with NumPy."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from tilewright.dtypes import BF16, F32, F64
from tilewright.errors import RunError, VerifyError
from tilewright.graph.ir import Function, Node
from tilewright.ops.control import infer_node, scan
from tilewright.ops.evaluate import evaluate_function
from tilewright.ops.operator import Builder
from tilewright.storage import Storage
from tilewright.types import TensorType


def vector(n: int) -> TensorType:
    return TensorType(F32, (n,))


def affine() -> Function:
    """y = 2 x + 1"""
    function = Function("main")
    x = function.add_input("x", vector(3))
    build = Builder(function)
    doubled = build.op("Mul", x, build.constant(np.float32([2])))
    y = build.op("Add", doubled, build.constant(np.float32([1])))
    function.outputs, function.output_names = [y], ["y"]
    return function


def test_values_and_names() -> None:
    result = evaluate_function(affine(), {"x": np.float32([1, 2, 3])})
    assert list(result) == ["y"]
    assert result["y"].tolist() == [3, 5, 7]
    assert result["y"].dtype == np.float32


def test_float64_reaches_inputs_and_constants() -> None:
    function = affine()
    result = evaluate_function(function, {"x": np.float32([0.1, 2, 3])}, np.dtype(np.float64))["y"]
    assert result.dtype == np.float64
    assert result[0] == float(np.float32(0.1)) * 2 + 1
    wide = evaluate_function(function, {"x": np.array([1e-9, 2, 3])}, np.dtype(np.float64))["y"]
    assert wide[0] == 1e-9 * 2 + 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": np.zeros(3, np.float32), "z": np.zeros(1)}, "input 'z' is missing or unknown"),
        ({"x": np.zeros(4, np.float32)}, r"input 'x' is float32\[4\], expected float32\[3\]"),
        ({"x": np.zeros(3, np.int32)}, "input 'x' is int32"),
        ({"x": np.zeros(3, np.float64)}, "input 'x' is float64"),
    ],
)
def test_wrong_inputs_are_refused(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(RunError, match=message):
        evaluate_function(affine(), inputs)


def test_results_never_alias_inputs_or_constants() -> None:
    function = Function("main")
    x = function.add_input("x", vector(2))
    build = Builder(function)
    constant = function.constant(np.float32([5, 6]))
    same = build.op("Identity", x)
    function.outputs = [x, constant, same, same]
    function.output_names = ["x", "c", "same", "again"]
    given = np.float32([1, 2])
    result = evaluate_function(function, {"x": given})
    assert [a.tolist() for a in result.values()] == [[1, 2], [5, 6], [1, 2], [1, 2]]
    arrays = list(result.values())
    assert not any(np.shares_memory(a, given) or np.shares_memory(a, constant.data) for a in arrays)
    assert not np.shares_memory(result["same"], result["again"])


def test_hook_sees_every_node_and_values_are_freed() -> None:
    function = Function("main")
    value = function.add_input("x", vector(4))
    build = Builder(function)
    last = build.op("Exp", build.op("Neg", build.op("Exp", value)))
    function.outputs, function.output_names = [last], ["y"]
    seen: list[str] = []
    first: list[weakref.ref[np.ndarray]] = []
    alive: list[bool] = []

    def hook(node: Node, results: object) -> None:
        seen.append(node.op)
        if not first:
            first.append(weakref.ref(results[0]))  # type: ignore[index]
        alive.append(first[0]() is not None)

    evaluate_function(function, {"x": np.zeros(4, np.float32)}, hook=hook)
    assert seen == ["Exp", "Neg", "Exp"]
    assert alive == [True, True, False]


def test_constants_in_another_storage() -> None:
    data = np.arange(2 * 5 * 2 * 2, dtype=np.float32).reshape(2, 5, 2, 2)
    storage = Storage("aBcd4b", ((0, 0), (0, 0), (1, 1), (1, 1)))
    function = Function("main")
    x = function.add_input("x", TensorType(F32, data.shape))
    packed = function.constant(storage.pack(data), "c", TensorType(F32, data.shape, storage))
    function.outputs, function.output_names = [Builder(function).op("Sub", x, packed)], ["y"]
    assert not evaluate_function(function, {"x": data})["y"].any()


def test_fused_body() -> None:
    body = affine()
    function = Function("main")
    x = function.add_input("x", vector(3))
    draft = Node("Fused", "fused", [x], bodies=(body,))
    node = function.make_node("Fused", [x], infer_node(draft), bodies=(body,))
    function.nodes.append(node)
    function.outputs, function.output_names = [node.output], ["y"]
    seen: list[str] = []
    result = evaluate_function(
        function, {"x": np.float32([1, 2, 3])}, hook=lambda node, _: seen.append(node.op)
    )
    assert result["y"].tolist() == [3, 5, 7]
    assert seen == ["Mul", "Add", "Fused"]


def running_sum() -> Function:
    """(state, element, capture) -> (state + element, the sum, element squared times capture)"""
    body = Function("body")
    state, element, factor = (body.add_input(name, vector(2)) for name in ("s", "e", "k"))
    build = Builder(body)
    total = build.op("Add", state, element)
    square = build.op("Mul", build.op("Mul", element, element), factor)
    body.outputs, body.output_names = [total, total, square], ["s", "sum", "square"]
    return body


@pytest.mark.parametrize(
    ("reverse", "sums", "squares"),
    [
        (False, [[0, 1], [2, 4], [6, 9]], [[0, 1], [4, 9], [16, 25]]),
        (True, [[6, 9], [6, 8], [4, 5]], [[0, 1], [4, 9], [16, 25]]),
    ],
)
def test_scan(reverse: bool, sums: list[list[int]], squares: list[list[int]]) -> None:
    function = Function("main")
    start, factor = function.add_input("start", vector(2)), function.add_input("k", vector(2))
    xs = function.add_input("xs", TensorType(F32, (3, 2)))
    build = Builder(function)
    function.outputs = scan(build, running_sum(), [start], [xs], [factor], reverse)
    function.output_names = ["final", "sums", "squares"]
    feeds = {"start": np.zeros(2, np.float32), "k": np.ones(2, np.float32)}
    feeds["xs"] = np.arange(6, dtype=np.float32).reshape(3, 2)
    result = evaluate_function(function, feeds)
    assert result["final"].tolist() == [6, 9]
    assert result["sums"].tolist() == sums
    assert result["squares"].tolist() == squares
    assert evaluate_function(function, feeds, np.dtype(np.float64))["sums"].dtype == np.float64


def test_scan_of_nothing_keeps_the_state() -> None:
    function = Function("main")
    start = function.add_input("start", vector(2))
    xs = function.add_input("xs", TensorType(F32, (0, 2)))
    function.outputs = scan(Builder(function), running_sum(), [start], [xs], [start])
    function.output_names = ["final", "sums", "squares"]
    feeds = {"start": np.float32([3, 4]), "xs": np.zeros((0, 2), np.float32)}
    result = evaluate_function(function, feeds)
    assert result["final"].tolist() == [3, 4]
    assert result["sums"].shape == (0, 2)


def test_scan_refuses_a_body_that_does_not_fit() -> None:
    function = Function("main")
    start = function.add_input("start", vector(3))
    xs = function.add_input("xs", TensorType(F32, (3, 2)))
    with pytest.raises(VerifyError, match="body input 's' is"):
        scan(Builder(function), running_sum(), [start], [xs], [start])


def test_cast_rounds_in_float64_only_to_half_types() -> None:
    function = Function("main")
    x = function.add_input("x", TensorType(F64, (1,)))
    build = Builder(function)
    function.outputs = [build.op("Cast", x, to=F32), build.op("Cast", x, to=BF16)]
    function.output_names = ["f32", "bf16"]
    result = evaluate_function(function, {"x": np.array([1 + 2.0**-40])}, np.dtype(np.float64))
    assert result["f32"][0] == 1 + 2.0**-40
    assert result["bf16"][0] == 1
    assert result["bf16"].dtype == np.float64


def test_operator_errors_name_the_node() -> None:
    function = Function("main")
    x = function.add_input("x", vector(3))
    index = function.constant(np.array([7]))
    value = Builder(function).op("Gather", x, index, axis=0, label="pick")
    function.outputs, function.output_names = [value], ["y"]
    with pytest.raises(RunError, match="node 'pick': Gather: index 7 is outside"):
        evaluate_function(function, {"x": np.zeros(3, np.float32)})


def test_a_wrong_declared_type_is_found() -> None:
    function = affine()
    function.nodes[0].outputs[0].type = vector(4)
    with pytest.raises(RunError, match="Mul gave float32"):
        evaluate_function(function, {"x": np.zeros(3, np.float32)})
