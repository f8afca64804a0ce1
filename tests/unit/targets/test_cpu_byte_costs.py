"""Which products of i32 the CPU target wants of bytes."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.ops.all
from tilewright.dtypes import I32
from tilewright.graph.ir import Function, Node
from tilewright.machine import Machine
from tilewright.ops.operator import Builder
from tilewright.targets.cpu.costs import CpuCosts
from tilewright.targets.cpu.detect import from_features
from tilewright.types import TensorType

assert tilewright.ops.all

AVX2 = frozenset({"avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
WITH = {
    "avx512": from_features("vnni", AVX512 | {"avx512vnni"}),
    "vex": from_features("v", AVX2 | {"avxvnni"}),
}
WITHOUT = from_features("none", AVX512)


def convolution(channels: int, columns: int, group: int = 1) -> Node:
    function = Function("main")
    x = function.add_input("x", TensorType(I32, (1, channels, 16, 16)))
    w = function.constant(np.zeros((columns, channels // group, 3, 3), np.int32))
    Builder(function).op("Conv", x, w, group=group)
    return function.nodes[0]


def product(*rows: int, columns: int = 32, op: str = "MatMul") -> Node:
    function = Function("main")
    x = function.add_input("x", TensorType(I32, (*rows, 15)))
    Builder(function).op(op, x, function.constant(np.zeros((15, columns), np.int32)))
    return function.nodes[0]


@pytest.mark.parametrize("machine", WITH.values(), ids=WITH)
@pytest.mark.parametrize(
    "node",
    [convolution(64, 32), convolution(3, 32), convolution(32, 64, 2), convolution(32, 32, 32), product(2, 5)],
    ids=["channels", "odd channels", "groups", "depthwise", "MatMul"],
)
def test_bytes_are_fewer_cycles(machine: Machine, node: Node) -> None:
    cycles = CpuCosts(machine).algorithms(node)
    assert cycles["int8"] < cycles["direct"]


@pytest.mark.parametrize(
    "node",
    [
        *(convolution(6, 32, 2), convolution(32, 36, 2), convolution(16, 32, 16), convolution(64, 1)),
        *(product(), product(4, op="Gemm")),
    ],
    ids=["odd groups", "columns between groups", "two columns a channel", "one column", "a vector", "Gemm"],
)
def test_what_has_no_template_keeps_i32(node: Node) -> None:
    assert not CpuCosts(WITH["avx512"]).algorithms(node)


def test_a_machine_without_the_instruction_keeps_i32() -> None:
    assert not CpuCosts(WITHOUT).algorithms(convolution(64, 32))
