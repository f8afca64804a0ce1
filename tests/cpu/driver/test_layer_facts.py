"""What `tilewright layers` rests on: facts of each step of a trace, and ceilings of the machine."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.config import usable_cpus
from tilewright.errors import UsageError
from tilewright.loops.parse import parse_kernel
from tilewright.targets.cpu.ceilings import dot_text
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.codegen_dot import DOTS, QUADS
from tilewright.targets.cpu.detect import from_features, host
from tilewright_datasets import zoo


def test_every_span_of_a_trace_has_its_facts(tmp_path) -> None:
    executable = tw.compile(zoo.model_path("dqn"), threads=1, cache_dir=tmp_path)
    inputs = {a.name: np.ones(a.shape, a.dtype) for a in executable.inputs}
    _, spans = executable.trace(inputs)
    steps = executable.package.segments[0].info["steps"]
    assert [step["name"] for step in steps] == [span.name for span in spans if span.row == 1]
    convolutions = {step["nodes"][0]: step for step in steps if step["nodes"]}
    first = convolutions["conv1"]
    products = 2 * 32 * 20 * 20 * 4 * 8 * 8
    assert products <= first["flops"] <= 1.05 * products
    assert first["footprint"] == 4 * (4 * 84 * 84 + 32 * 4 * 8 * 8 + 32 + 32 * 20 * 20)
    assert first["times"] == 1


def test_a_trace_says_what_turns_of_a_loop_take_together(tmp_path) -> None:
    executable = tw.compile(zoo.model_path("lstm_lm"), threads=1, cache_dir=tmp_path)
    assert 35 in {step["times"] for step in executable.package.segments[0].info["steps"]}


def test_bytes_are_multiplied_in_loops_of_their_intrinsic(tmp_path) -> None:
    executable = tw.compile(zoo.model_path("tvm_c2_int8"), threads=1, cache_dir=tmp_path)
    (segment,) = executable.package.segments
    work = max(segment.info["steps"], key=lambda step: step["int_ops"])
    products = 2 * 56 * 56 * 64 * 64 * 9
    assert products <= work["int_ops"] <= 1.05 * products
    assert segment.info["int_ops"] == sum(step["int_ops"] for step in segment.info["steps"])
    assert work["flops"] < 0.05 * products
    if QUADS.on(host()):
        assert work["intrinsics"] == {"dot_quads": products}


def test_every_dot_product_of_this_machine_has_a_ceiling() -> None:
    rates = tw.measure_ceilings(1).dots
    assert list(rates) == [name for name, dot in DOTS.items() if dot.on(host())]
    assert all(rate > 0 for rate in rates.values())


AVX512 = frozenset(
    {"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512bf16", "avx512vnni"}
)


@pytest.mark.parametrize("name", DOTS)
def test_the_kernel_of_a_dot_product_is_one_instruction_a_chain(name) -> None:
    machine = from_features("all", AVX512)
    text = kernel_text(parse_kernel(dot_text(name, machine.lanes(), 1)), machine)
    assert machine.lanes() == 16
    assert text.count(f"@{DOTS[name].callee}.512(") == 12 + 1, "a call for each chain, and the declaration"


def test_ceilings_are_those_of_the_widest_vectors() -> None:
    found = tw.measure_ceilings(1)
    sizes = [size for size, _ in found.read]
    assert sizes == sorted(sizes)
    assert found.fma_gflops > 1
    assert all(rate > 0 for _, rate in found.read)
    assert found.bandwidth(0) == found.read[0][1]
    assert found.bandwidth(1 << 40) == min(rate for _, rate in found.read)


def test_more_threads_than_cpus_have_no_ceiling() -> None:
    with pytest.raises(UsageError, match="no ceiling"):
        tw.measure_ceilings(usable_cpus() + 1)
