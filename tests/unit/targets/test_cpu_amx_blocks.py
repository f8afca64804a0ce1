"""Which tiles products of bf16 run in, from a machine's description alone."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import tilewright.ops.all
from tilewright.config import CompileOptions
from tilewright.dtypes import F32
from tilewright.graph.ir import Function
from tilewright.machine import Machine
from tilewright.ops.operator import Builder
from tilewright.targets.cpu.detect import from_features, without_tiles
from tilewright.targets.cpu.schedules.amx_blocks import (
    COLUMNS,
    PAIRS,
    QUADS,
    SUMS,
    Product,
    Run,
    Unit,
    blocks_for,
)
from tilewright.targets.cpu.schedules.contraction import chunk_of, panel_width, terms_of
from tilewright.targets.cpu.target import CpuTarget
from tilewright.targets.cpu.wishes import panels
from tilewright.types import TensorType

assert tilewright.ops.all

AVX512 = {"sse2", "avx", "avx2", "fma", "avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512bf16"}
SQUARE = Product((1, 14, 14), (0, 0, 14), 256, 1, 9, 256)
AMX = from_features("amx", frozenset(AVX512 | {"amx-tile", "amx-bf16", "amx-int8"}))


@pytest.mark.parametrize(
    ("rows", "pitches", "columns", "channels", "run", "blocks"),
    [
        ((1, 56, 56), (0, 0, 58), 64, 64, Run(2, 28), (14, 2, 2)),  # two tiles in the row of the image
        ((1, 14, 14), (0, 0, 16), 256, 256, Run(2, 2, 14, seams=True), (14, 2, 2)),  # one in each of two rows
        ((1, 7, 7), (0, 0, 9), 512, 512, Run(2, 7, 9), (16, 2, 2)),  # through rows, padding and all
        ((1, 7, 7), (0, 0, 7), 512, 512, Run(2, 7, 7), (13, 2, 2)),  # the same without padding
        ((1, 5, 16), (0, 0, 18), 32, 144, Run(2, 16), (16, 1, 2)),  # no more tiles than columns
        ((16, 1, 1), (0, 0, 3), 64, 64, Run(0, 16), (16, 1, 2)),  # images of a batch
        ((32,), (0,), 48, 64, Run(0, 32), (16, 2, 2)),
        ((197,), (0,), 768, 768, Run(0, 197), (15, 2, 2)),  # the last block overlaps the one before
    ],
)
def test_blocks(
    rows: tuple[int, ...],
    pitches: tuple[int, ...],
    columns: int,
    channels: int,
    run: Run,
    blocks: tuple[int, int, int],
) -> None:
    found = blocks_for(Product(rows, pitches, columns, 1, 9, channels), AMX)
    assert found is not None
    assert found.run == run
    assert (found.rows, found.high, found.wide) == blocks


@pytest.mark.parametrize("rows", [(1, 56, 56), (2, 9, 15), (5, 13), (48,), (1, 7, 7), (1, 17, 19)])
@pytest.mark.parametrize(("columns", "groups"), [(16, 1), (40, 1), (128, 2), (1000, 1)])
@pytest.mark.parametrize("channels", [16, 24, 36, 960])
@pytest.mark.parametrize(("border", "unit"), [(0, PAIRS), (2, PAIRS), (2, QUADS)])
def test_blocks_cover_the_work(
    rows: tuple[int, ...], columns: int, groups: int, channels: int, border: int, unit: Unit
) -> None:
    channels *= unit.vectors // PAIRS.vectors * unit.terms // PAIRS.terms
    found = blocks_for(
        Product(rows, tuple(n + border for n in rows), columns, groups, 9, channels), AMX, unit
    )
    assert found is not None
    run, length = found.run, found.run.length(rows)
    cut, chunks = run.split(rows)
    assert chunks * run.chunk == rows[cut]
    assert found.rows * found.high <= length
    assert found.even == (length % found.rows == 0)
    assert not run.seams or run.pitch % found.rows == 0
    assert channels % found.terms == 0
    assert found.terms % unit.group == 0
    assert found.terms <= 16 * unit.group
    assert found.high * found.wide <= SUMS
    assert groups == 1 or columns // groups % found.columns == 0
    tiles = prod(rows) / found.rows * -(-columns // COLUMNS)
    assert found.cycles >= 16 * tiles * 9 * channels / found.terms


def test_weights_lie_in_the_order_in_which_tiles_read_them() -> None:
    """Chunks of channels, in each of them the taps, of each tap the pairs of its channels."""
    storage = panels("acdb", "a", 32, 2, chunk=32)
    assert (panel_width(storage), terms_of(storage), chunk_of(storage)) == (32, 2, 32)
    assert chunk_of(panels("acdb", "a", 32, 2)) == 0
    weights = np.arange(32 * 64 * 9).reshape(32, 64, 3, 3)
    steps = storage.pack(weights).reshape(2 * 9, 16, 32, 2)  # one step of tile products after another
    for step, (chunk, tap) in enumerate((chunk, tap) for chunk in range(2) for tap in range(9)):
        channels = weights.reshape(32, 64, 9)[:, 32 * chunk : 32 * chunk + 32, tap]
        np.testing.assert_array_equal(steps[step].transpose(1, 0, 2).reshape(32, 32), channels)


@pytest.mark.parametrize(
    ("channels", "taps", "joined", "chunk"), [(64, 9, 3, 32), (64, 1, 1, 0), (4, 49, 7, 0), (48, 9, 3, 24)]
)
def test_taps_of_a_chunk_of_channels_follow_each_other(
    channels: int, taps: int, joined: int, chunk: int
) -> None:
    found = blocks_for(Product((1, 14, 14), (0, 0, 14), 64, 1, taps, channels, joined), AMX)
    assert found is not None
    assert (found.chunk, found.joined) == (chunk, channels == 4)


def test_a_packed_operand_decides_the_columns() -> None:
    for panel in (16, 32, 48, 64):
        found = blocks_for(SQUARE, AMX, PAIRS, panel)
        assert found is not None
        assert found.columns == panel
    assert blocks_for(SQUARE, AMX, PAIRS, 24) is None


@pytest.mark.parametrize(
    ("rows", "columns", "groups", "channels"),
    [
        ((1, 14, 14), 64, 1, 3),  # no pairs of channels
        ((1, 14, 14), 64, 1, 2),  # tiles nearly empty
        ((1,), 1000, 1, 512),
        ((1, 14, 14), 48, 2, 64),  # columns of another group in the tile
    ],
)
def test_vectors_where_tiles_would_be_no_better(
    rows: tuple[int, ...], columns: int, groups: int, channels: int
) -> None:
    assert blocks_for(Product(rows, rows, columns, groups, 1, channels), AMX) is None


@pytest.mark.parametrize("rows", [1009, 4093, 100_003])
def test_sums_on_the_stack_are_bounded(rows: int) -> None:
    """A prime number of rows is computed at once, if at all."""
    found = blocks_for(Product((rows,), (0,), 64, 1, 1, 64), AMX)
    assert (found is not None) == (rows < 100_000)
    if found is not None:
        assert found.run.chunk == rows
        assert found.run.length((rows,)) * found.columns * 4 <= 1 << 18


def test_the_ablation_takes_the_unit_from_the_machine() -> None:
    plain = without_tiles(AMX)
    assert blocks_for(SQUARE, plain) is None
    assert {**AMX.units} == {"fma": 1, "amx_bf16": 1, "amx_int8": 1}
    assert {**plain.units} == {"fma": 1}
    assert plain.features == tuple(f for f in AMX.features if not f.startswith("amx"))
    assert _target(("matrix",)).machine == plain
    assert _target(()).machine == AMX
    assert _target(("matrix",)).schedule_key != _target(()).schedule_key


def _target(without: tuple[str, ...]) -> CpuTarget:
    machine: Machine = AMX
    return CpuTarget(machine, CompileOptions(precision="bf16", without=without))


@pytest.mark.parametrize(("rows", "beside_tiles"), [(1, True), (100, False)])
def test_products_of_pairs_are_offered_where_they_gain(rows: int, beside_tiles: bool) -> None:
    """Sums of two terms leave tiles nearly empty; beside them pairs gain for few rows only."""
    function = Function("main")
    x = function.add_input("x", TensorType(F32, (rows, 2)))
    weights = function.constant(np.zeros((2, 48), np.float32))
    function.outputs = [Builder(function).op("MatMul", x, weights)]
    for machine, offered in ((from_features("pairs", frozenset(AVX512)), True), (AMX, beside_tiles)):
        cycles = CpuTarget(machine, CompileOptions(precision="bf16")).algorithms(function.nodes[0])
        assert ("bf16" in cycles) == offered
