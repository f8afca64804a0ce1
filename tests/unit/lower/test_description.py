"""Descriptions of groups: equal exactly where kernels are."""

import numpy as np
import pytest

import tilewright.ops.all  # noqa: F401  fills the registry
from tilewright.dtypes import F32
from tilewright.graph.ir import Function, Node
from tilewright.lower.description import describe
from tilewright.ops.operator import Builder
from tilewright.types import TensorType


def product(other: np.ndarray, shape: tuple[int, ...] = (3, 4), name: str = "x") -> Node:
    function = Function("main")
    x = function.add_input(name, TensorType(F32, shape))
    Builder(function).op("Mul", x, function.constant(other.astype(np.float32), "w"))
    return function.nodes[0]


def test_names_and_weights_do_not_count() -> None:
    assert describe(product(np.ones(4))) == describe(product(np.zeros(4), name="other"))


@pytest.mark.parametrize(
    "other",
    [product(np.ones(4), (2, 4)), product(np.ones((3, 4))), product(np.float32(2)), product(np.float32(3))],
)
def test_shapes_and_literals_count(other: Node) -> None:
    known = {describe(product(np.ones(4))), describe(product(np.float32(1)))}
    assert describe(other) not in known


def test_large_attributes_count_whole() -> None:
    """`str` of an array leaves out its middle."""
    node = product(np.ones(4))
    node.attrs["table"] = np.zeros(5000)
    first = describe(node)
    node.attrs["table"] = np.zeros(5000)
    assert describe(node) == first
    node.attrs["table"][2500] = 1.0
    assert describe(node) != first


def test_which_operand_comes_twice_counts() -> None:
    def sum_of(first: int, second: int) -> str:
        function = Function("main")
        inputs = [function.add_input(f"x{i}", TensorType(F32, (4,))) for i in range(2)]
        Builder(function).op("Add", inputs[first], inputs[second])
        return describe(function.nodes[0])

    assert sum_of(0, 1) == sum_of(1, 0)
    assert sum_of(0, 0) == sum_of(1, 1) != sum_of(0, 1)
