"""Layers: cutting a model, counting its work, grouping steps, floors, totals and tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tilewright.errors import UsageError
from tilewright_bench.engines.base import Profiled, Step
from tilewright_bench.layers.floors import as_json, floor_of, unit_of
from tilewright_bench.layers.profiles import inside_rows
from tilewright_bench.layers.rows import kernel_kind, layer_row, leftover_row, totals
from tilewright_bench.layers.steps import TimedStep, grouped, traced
from tilewright_bench.layers.submodels import Whole
from tilewright_bench.layers.table import layer_csv, layer_table, total_cells
from tilewright_bench.statistics import Summary
from tilewright_datasets import zoo

DIGEST = "0123456789ab"


@dataclass(frozen=True)
class FlatCeilings:
    """100 GFLOP/s, 200 for pairs and 400 for quads; 50 GB/s below 1 MB, 10 above."""

    threads: int = 1
    fma_gflops: float = 100.0
    dots: Mapping[str, float] = field(default_factory=lambda: {"dot_pairs": 200.0, "dot_quads": 400.0})
    read: tuple[tuple[int, float], ...] = ((1000, 50.0), (1_000_000, 10.0))

    def bandwidth(self, footprint: int) -> float:
        return 50.0 if footprint < 1_000_000 else 10.0


def step(
    name: str, nodes: tuple[str, ...] = (), flops: int = 0, moved: int = 0, ms: float = 1.0
) -> TimedStep:
    made = Step(f"{name}_{DIGEST}", ms / 1e3, nodes, flops, moved, moved, 1, "contraction")
    return TimedStep(made, Summary(ms, 0.9 * ms, 1.1 * ms))


@pytest.fixture(scope="module")
def dqn() -> Whole:
    return Whole(zoo.model_path("dqn"), {})


def test_a_layer_alone_computes_what_it_does_inside(dqn: Whole, tmp_path: Path) -> None:
    cut = dqn.cut(("conv1", "relu1"))
    assert cut.ops == ("Conv", "Relu")
    assert cut.flops == 2 * 32 * 20 * 20 * 4 * 8 * 8
    onnx.checker.check_model(cut.model)
    path = tmp_path / "whole.onnx"
    whole = onnx.load(zoo.model_path("dqn"))
    whole.graph.output.append(helper.make_tensor_value_info("relu1_out", TensorProto.FLOAT, [1, 32, 20, 20]))
    onnx.save(whole, path)
    given = {"data": np.random.default_rng(1).standard_normal((1, 4, 84, 84), np.float32)}
    (wanted,) = onnxruntime.InferenceSession(path).run(["relu1_out"], given)
    (found,) = onnxruntime.InferenceSession(cut.model.SerializeToString()).run(None, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_equal_layers_have_equal_keys_whatever_their_weights() -> None:
    whole = Whole(zoo.model_path("squeezenet1_1"), {})
    keys = {
        name: whole.cut((f"{name}.expand3x3", f"{name}.expand3x3.relu")).key
        for name in ("fire3", "fire4", "fire6")
    }
    assert keys["fire3"] == keys["fire4"] != keys["fire6"]


@pytest.mark.parametrize(
    ("name", "nodes", "macs"),
    [
        ("dcgan", ("deconv2",), 512 * 4 * 4 * 256 * 4 * 4),
        ("dqn", ("fc1",), 64 * 7 * 7 * 512),
        ("lstm_lm", ("lstm1",), 35 * 4 * 650 * (650 + 650)),
        ("lstm_lm", ("decoder.matmul", "decoder.add"), 35 * 650 * 10000),
        ("tvm_d1", ("conv",), 112 * 112 * 32 * 9),
        ("tvm_c2_int8", ("conv",), 56 * 56 * 64 * 64 * 9),
    ],
)
def test_needed_work_is_counted_from_the_model(name: str, nodes: tuple[str, ...], macs: int) -> None:
    assert Whole(zoo.model_path(name), {}).cut(nodes).flops == 2 * macs


def test_layers_without_products_need_what_their_kernels_count(dqn: Whole) -> None:
    assert dqn.cut(("relu1",)).flops is None


def test_a_shape_that_is_not_known_is_no_layer(tiny_model: Path) -> None:
    with pytest.raises(UsageError, match="the shape of 'x' is not known"):
        Whole(tiny_model, {}).cut([name for name in Whole(tiny_model, {}).names if name == "y"])
    assert Whole(tiny_model, {"batch": 2}).cut(("y",)).flops == 2 * 2 * 4 * 3


def test_steps_that_share_a_node_are_one_layer_and_storage_changes_are_none() -> None:
    steps = [
        step("pack"),
        step("conv_relu", ("a", "b")),
        step("unpack", ("b",)),
        step("matmul", ("c",)),
        step("sigmoid", ("d",)),
        step("sigmoid", ("d", "c")),
        step("softmax", ("unknown",)),
    ]
    layers, leftovers = grouped(steps, {"a", "b", "c", "d"})
    assert [layer.nodes for layer in layers] == [("a", "b"), ("c", "d")]
    assert [len(layer.steps) for layer in layers] == [1, 3]
    assert [kernel_kind(timed.step.name) for timed in leftovers] == ["pack", "unpack", "softmax"]


def test_the_floor_is_the_slower_of_work_and_memory() -> None:
    ceilings = FlatCeilings()
    work = floor_of([step("a", flops=10**9, moved=1000).step], None, ceilings)
    assert (work.bound, work.ms) == ("fma", pytest.approx(10))
    memory = floor_of([step("a", flops=10, moved=10**8).step], None, ceilings)
    assert (memory.bound, memory.ms) == ("read", pytest.approx(10))
    needed = floor_of([step("a", flops=2 * 10**9).step], 10**9, ceilings)
    assert needed.ms == pytest.approx(10), "what a tile computes in vain is no part of the floor"


def on(unit: str, flops: int = 0, int_ops: int = 0, plain: int = 0) -> TimedStep:
    """A step of a millisecond, its products in loops of an intrinsic, with flops beside them."""
    made = step("conv", ("conv1",), flops + plain)
    parts = replace(made.step, int_ops=int_ops, intrinsics={unit: flops + int_ops})
    return TimedStep(parts, made.ms)


@pytest.mark.parametrize(
    ("timed", "unit", "ms"),
    [
        (on("dot_pairs", flops=10**9), "bf16", 5.0),
        (on("dot_quads", int_ops=10**9), "int8", 2.5),
        (on("dot_quads", int_ops=10**9, plain=10**8), "int8", 3.5),
    ],
)
def test_products_are_held_against_the_unit_that_does_them(timed: TimedStep, unit: str, ms: float) -> None:
    floor = floor_of([timed.step], None, FlatCeilings())
    assert (floor.bound, floor.ms) == (unit, pytest.approx(ms))


def test_an_instruction_that_the_machine_lacks_has_no_part_in_the_floor() -> None:
    ceilings = FlatCeilings(dots={})
    floor = floor_of([on("dot_pairs", flops=10**9).step], None, ceilings)
    assert (floor.bound, floor.ms) == ("fma", pytest.approx(10))
    assert as_json(ceilings)["units"] == {"fma": 100.0}


def test_tiles_that_are_not_measured_leave_the_reading() -> None:
    timed = on("dot_tile_quads", int_ops=10**9)
    made = replace(timed.step, bytes=10**8, footprint=10**8)
    assert unit_of([made], FlatCeilings()) == ("amx_int8", None)
    floor = floor_of([made], None, FlatCeilings())
    assert (floor.bound, floor.ms) == ("read", pytest.approx(10))


def test_needed_work_is_of_the_kind_that_is_executed(dqn: Whole) -> None:
    cut = dqn.cut(("conv1", "relu1"))
    (layer,), _ = grouped([on("dot_quads", int_ops=10**7, plain=10**6)], dqn.names)
    row = layer_row(0, layer, cut, FlatCeilings())
    assert (row["flops"], row["int_ops"], row["unit"]) == (0, cut.flops, "int8")
    assert (row["executed_flops"], row["executed_int_ops"]) == (10**6, 10**7)
    assert row["of_unit"] == pytest.approx(row["gops"] / 400)


def test_rows_and_totals_and_tables_agree(dqn: Whole) -> None:
    steps = [
        step("conv_relu", ("conv1", "relu1"), 7_000_000, 1000, ms=0.2),
        step("pack", moved=1000, ms=0.05),
    ]
    (layer,), (rest,) = grouped(steps, dqn.names)
    cut = dqn.cut(layer.nodes)
    ceilings = FlatCeilings()
    origin = {"model": "dqn", "engine": "tilewright:cpu", "threads": 1}
    rows = [origin | layer_row(0, layer, cut, ceilings), origin | leftover_row(1, rest, ceilings)]
    assert rows[0]["gflops"] == pytest.approx(cut.flops / 0.2e-3 / 1e9)
    assert rows[0]["executed_flops"] == 7_000_000
    assert rows[0]["of_unit"] == pytest.approx(rows[0]["gflops"] / 100)
    assert [row["kind"] for row in rows] == ["Conv", "pack"]
    found = totals(rows)
    assert [row["kind"] for row in found] == ["Conv", "pack", "all"]
    assert found[0]["share"] == pytest.approx(0.8)
    rows[0]["same_as"] = 0
    alone = [
        {"index": 0, "engine": "tilewright:cpu", "median_ms": 0.3},
        {"index": 0, "engine": "ort", "median_ms": 0.6, "ratio": 2.0},
    ]
    inside = inside_rows("ort", [Profiled(("relu1_out_nchwc", "relu1_out"), 0.25)], dqn, rows)
    result = {"rows": rows, "totals": found, "alone": alone, "inside": inside}
    head, cells = layer_table(result)
    assert head[-3:] == ("ort inside ms", "tilewright:cpu alone ms", "ort alone ms")
    assert cells[0][-3] == "0.2500"
    assert cells[0][-1] == "0.6000 (2.00×)"
    assert cells[1][-1] == ""
    assert len(total_cells(result)) == 3
    header, first, _ = layer_csv(result).splitlines()
    assert len(header.split(",")) == len(first.split(","))
    assert first.endswith("0.6,2.0")


def test_kernels_of_no_layer_are_summed_up(dqn: Whole) -> None:
    rows = [{"index": 0, "nodes": ["conv1", "relu1"]}]
    parts = [Profiled(("conv1",), 1.0), Profiled(("reorder",), 0.5), Profiled(("x", "relu1_out"), 2.0)]
    found = {row["index"]: row["median_ms"] for row in inside_rows("ort", parts, dqn, rows)}
    assert found == {0: 3.0, None: 0.5}


def test_an_engine_that_tells_nothing_cannot_come_first() -> None:
    class Silent:
        def run(self, inputs: object) -> None: ...
        def trace(self, inputs: object) -> None: ...

    with pytest.raises(UsageError, match="'ort' does not report"):
        traced(Silent(), {}, "ort")  # type: ignore[arg-type]
