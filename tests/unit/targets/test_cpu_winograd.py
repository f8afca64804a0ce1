"""Winograd on the CPU target: which algorithm a layer gets by mode and extent, and how its blocks are cut."""

import numpy as np
import pytest

import tilewright.ops.all
from tilewright.dtypes import F32
from tilewright.graph.ir import Function, Node
from tilewright.machine import Machine
from tilewright.ops.operator import Builder
from tilewright.targets.cpu.costs import CpuCosts
from tilewright.targets.cpu.schedules.winograd import Shape, block_rows
from tilewright.types import TensorType

assert tilewright.ops.all

MACHINE = Machine("wide", "x86_64-unknown-linux-gnu", vector_bits=512, registers=32)


def convolution(channels: int, columns: int, extent: int, batch: int = 1) -> Node:
    """3x3 of stride 1, padded so that the result has the extent of the input."""
    function = Function("main")
    x = function.add_input("x", TensorType(F32, (batch, channels, extent, extent)))
    w = function.constant(np.zeros((columns, channels, 3, 3), np.float32))
    Builder(function).op("Conv", x, w, strides=(1, 1), dilations=(1, 1), group=1, pads=(1, 1, 1, 1))
    return function.nodes[0]


def fastest(node: Node, precision: str) -> str:
    cycles = CpuCosts(MACHINE, precision).algorithms(node)
    return min(cycles, key=cycles.__getitem__)


@pytest.mark.parametrize(
    ("layer", "fp32", "fast"),
    [
        ((64, 64, 56), "winograd", "winograd4"),
        ((512, 512, 7), "winograd", "winograd4"),  # 4 tiles of 36 products instead of 16 of 16
        ((512, 512, 6), "winograd", "winograd"),  # 4 tiles of 36 instead of 9 of 16: as many products
        ((512, 512, 4), "winograd", "winograd"),  # few products for each weight
        ((256, 256, 2), "direct", "direct"),
        ((256, 256, 2, 32), "winograd", "winograd"),  # a batch shares the weights
        ((3, 64, 224), "direct", "winograd4"),
    ],
)
def test_the_algorithm_by_mode_and_extent(layer: tuple[int, ...], fp32: str, fast: str) -> None:
    node = convolution(*layer)
    assert (fastest(node, "fp32"), fastest(node, "fp32-fast")) == (fp32, fast)


def test_tiles_of_four_are_no_choice_in_fp32() -> None:
    assert CpuCosts(MACHINE).algorithms(convolution(64, 64, 56)).keys() == {"direct", "winograd"}


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        (Shape(64, 64, 6, 56, 56), 1),  # one row of tiles fills the second-level cache
        (Shape(512, 512, 6, 2, 2), 2),  # weights are far larger than what passes: read them once
        (Shape(16, 16, 4, 4, 4), 1),  # everything stays near in any case
    ],
)
def test_blocks_stay_near_the_cache(shape: Shape, rows: int) -> None:
    assert block_rows(shape, MACHINE) == rows


def test_a_last_block_is_smaller_only_where_that_saves_much() -> None:
    assert 14 % block_rows(Shape(64, 64, 6, 14, 14), MACHINE) == 0
