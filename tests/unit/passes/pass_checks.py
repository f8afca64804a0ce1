"""Small graphs to run passes on, and the checks that every pass must stand."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.ops.all  # noqa: F401  fills the registry
from tilewright.dtypes import F32, DType
from tilewright.graph.ir import Constant, Function, Node, Placeholder, Value
from tilewright.graph.parse import parse_module
from tilewright.graph.text import print_function, print_module
from tilewright.ops.evaluate import evaluate_function
from tilewright.ops.operator import Builder
from tilewright.passes.base import Pass
from tilewright.passes.verify import verify_function
from tilewright.types import TensorType


class Graph:
    """Builds one function; constants are random unless given, the same in every run."""

    def __init__(self, name: str = "main") -> None:
        self.function = Function(name)
        self.builder = Builder(self.function)
        self.random = np.random.default_rng(7)

    def input(self, *shape: int, name: str = "x", dtype: DType = F32) -> Placeholder:
        return self.function.add_input(name, TensorType(dtype, shape))

    def weights(self, *shape: int, name: str = "w") -> Constant:
        return self.constant(self.random.standard_normal(shape).astype(np.float32), name)

    def constant(self, data: Any, name: str = "c") -> Constant:
        array = np.asarray(data)
        plain = array.astype(np.float32) if array.dtype == np.float64 else array
        return self.function.constant(plain, name)

    def op(self, name: str, *inputs: Value | None, **attrs: Any) -> Value:
        self.builder.origin = (f"{name.lower()}_{len(self.function.nodes)}",)
        return self.builder.op(name, *inputs, **attrs)

    def ops(self, name: str, *inputs: Value | None, **attrs: Any) -> list[Value]:
        return self.builder.ops(name, *inputs, **attrs)

    def batch_norm(self, x: Value, channels: int) -> Value:
        positive = self.constant(self.random.uniform(0.5, 2, channels).astype(np.float32), "var")
        rest = [self.weights(channels, name=name) for name in ("scale", "bias", "mean")]
        return self.op("BatchNormalization", x, *rest, positive, epsilon=1e-3)

    def returning(self, *outputs: Value) -> Function:
        self.function.outputs = list(outputs)
        self.function.output_names = [f"y{index}" for index in range(len(outputs))]
        verify_function(self.function)
        return self.function


def random_inputs(function: Function, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    arrays = {}
    for value in function.inputs:
        drawn = random.standard_normal(value.shape) * 3
        arrays[value.name] = drawn.astype(value.dtype.numpy)
    return arrays


def fires(function: Function, *passes: Pass, final: bool = True) -> Function:
    """Run passes that must fire: the result is valid, equal in numbers and interface, printable.

    final: and a second run changes nothing.
    """
    _run(function, passes, expected=True, final=final)
    return function


def keeps(function: Function, *passes: Pass) -> None:
    """Run passes that must not change anything."""
    before = print_function(function)
    _run(function, passes, expected=False, final=True)
    assert print_function(function) == before


def _run(function: Function, passes: tuple[Pass, ...], expected: bool, final: bool) -> None:
    inputs = random_inputs(function)
    before = evaluate_function(function, inputs)
    interface = [(value.name, value.type) for value in function.inputs]
    changed = [item.run(function) for item in passes]
    assert any(changed) == expected
    verify_function(function)
    assert [(value.name, value.type) for value in function.inputs] == interface
    for name, after in evaluate_function(function, inputs).items():
        np.testing.assert_allclose(after, before[name], rtol=1e-5, atol=1e-5)
    for item in passes if final else ():
        assert not item.run(function), f"{item.name} changes its own result"
    text = print_function(function)
    small = all(value.data.size <= 16 for body in _all_bodies(function) for value in body.constants())
    if small:
        assert print_module(parse_module(text)) == text


def _all_bodies(function: Function) -> list[Function]:
    return [
        function,
        *(inner for node in function.nodes for body in node.bodies for inner in _all_bodies(body)),
    ]


def operators(function: Function) -> list[str]:
    return [node.op for node in function.nodes]


def fused(function: Function) -> list[list[str]]:
    """The operators of every node of the function: those of its body for a Fused node."""
    return [operators(node.bodies[0]) if node.op == "Fused" else [node.op] for node in function.nodes]


def node_of(function: Function, op: str) -> Node:
    """The only node of an operator."""
    (node,) = [node for node in function.nodes if node.op == op]
    return node
