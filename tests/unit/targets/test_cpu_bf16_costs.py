"""Which products the CPU target wants of bf16 in pairs."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.ops.all
from tilewright.dtypes import F32
from tilewright.graph.ir import Function, Node
from tilewright.ops.operator import Builder
from tilewright.targets.cpu.costs import CpuCosts
from tilewright.targets.cpu.detect import from_features
from tilewright.types import TensorType

assert tilewright.ops.all

MACHINE = from_features("pairs", {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512bf16"})


def convolution(channels: int, group: int = 1) -> Node:
    function = Function("main")
    x = function.add_input("x", TensorType(F32, (1, channels, 64, 64)))
    w = function.constant(np.zeros((48, channels // group, 7, 7), np.float32))
    Builder(function).op("Conv", x, w, strides=(2, 2), group=group)
    return function.nodes[0]


def product(depth: int) -> Node:
    function = Function("main")
    x = function.add_input("x", TensorType(F32, (16, depth)))
    Builder(function).op("MatMul", x, function.constant(np.zeros((depth, 32), np.float32)))
    return function.nodes[0]


def cycles(node: Node) -> dict[str, float]:
    return dict(CpuCosts(MACHINE, "bf16").algorithms(node))


def test_a_channel_of_zeros_costs_its_products_and_moves_the_operand() -> None:
    even, odd = cycles(convolution(4)), cycles(convolution(3))
    assert even["bf16"] == even["direct"] / 2
    assert even["bf16"] < odd["bf16"] < odd["direct"]


@pytest.mark.parametrize("node", [convolution(9, group=3), product(15)], ids=["groups", "MatMul"])
def test_others_keep_float32_where_terms_are_odd(node: Node) -> None:
    assert "bf16" not in cycles(node)
    assert "bf16" in cycles(product(16))
