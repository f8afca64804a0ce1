"""Which algorithms of a product the CPU target offers, by ablation."""

from pathlib import Path

import numpy as np
import pytest

import tilewright.ops.all
from tilewright.config import CompileOptions
from tilewright.dtypes import F32
from tilewright.graph.ir import Function, Node
from tilewright.machine import Machine
from tilewright.ops.operator import Builder
from tilewright.targets.cpu.target import CpuTarget
from tilewright.types import TensorType

assert tilewright.ops.all

AMX = Machine.from_file(Path(__file__).parents[2] / "text" / "amx.json")


def convolution(kernel: int) -> Node:
    function = Function("main")
    x = function.add_input("x", TensorType(F32, (1, 16, 14, 14)))
    w = function.constant(np.zeros((16, 16, kernel, kernel), np.float32))
    Builder(function).op("Conv", x, w, strides=(1, 1))
    return function.nodes[0]


@pytest.mark.parametrize(
    ("without", "kernel", "offered"),
    [
        ((), 3, {"direct", "winograd", "winograd4", "split"}),
        (("winograd",), 3, {"direct", "split"}),
        (("direct",), 1, {"direct", "split"}),  # a product, as im2col leaves it
        (("matrix",), 1, set()),
    ],
)
def test_algorithms_by_ablation(without: tuple[str, ...], kernel: int, offered: set[str]) -> None:
    target = CpuTarget(AMX, CompileOptions(precision="fp32-fast", without=without))
    assert target.algorithms(convolution(kernel)).keys() == offered


def test_fp32_uses_no_planes() -> None:
    """Before they were measured on a processor with AMX."""
    assert CpuTarget(AMX, CompileOptions()).algorithms(convolution(3)).keys() == {"direct", "winograd"}
