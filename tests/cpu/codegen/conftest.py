"""Running loop programs on arrays through the whole CPU target, and the machines to compile them for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_runs import AMX, AVX2, AVX512, SSE, TILES, run_segment, segment_of
from tile_emulation import emulated

import tilewright as tw
from tilewright.loops.interpret import interpret
from tilewright.loops.ir import Kernel
from tilewright.lower import kernels
from tilewright.machine import Machine
from tilewright.segment import Segment
from tilewright.targets.cpu import device, target
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.detect import from_features, host

PROFILES = {"sse2": SSE, "avx2": AVX2, "avx512": AVX512}

Run = Callable[..., None]


@pytest.fixture(params=list(PROFILES))
def machine(request: pytest.FixtureRequest) -> Machine:
    """Each profile that this processor can run: masked features are tested wherever a wider one is there."""
    features = PROFILES[request.param]
    missing = sorted(features - set(host().features))
    if missing:
        pytest.skip(f"this processor has no {', '.join(missing)}")
    return from_features(request.param, features)


@pytest.fixture(params=["emulated", "hardware"])
def amx(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with AMX: one whose tile instructions are emulated here, and this one where it has them."""
    real = request.param == "hardware"
    needed = AMX if real else AMX - TILES
    missing = sorted(needed - set(host().features))
    if missing:
        pytest.skip(f"this processor has no {', '.join(missing)}")
    machine = from_features(request.param, AMX)
    if real:
        return machine
    flags = device.host_flags() | {feature.replace("-", "_") for feature in TILES}
    monkeypatch.setattr(kernels, "usable_cpus", lambda: 1)  # other processes would not emulate
    monkeypatch.setattr(target, "kernel_text", lambda kernel, m: emulated(kernel_text(kernel, m)))
    monkeypatch.setattr(device, "host_flags", lambda: flags)
    monkeypatch.setattr(device, "tile_permission", lambda: True)
    return replace(machine, limits={"emulated": 1})  # its objects have keys of their own


@pytest.fixture
def compiled(amx: Machine, tmp_path: Path) -> Callable[..., tw.Executable]:
    """compiled(data, precision="bf16", **options): for the machine with AMX."""
    profile = tmp_path / "amx.json"
    profile.write_text(json.dumps(amx.to_json()))

    def compile_model(data: bytes, precision: str = "bf16", **options: Any) -> tw.Executable:
        return tw.compile(data, precision=precision, machine=profile, cache_dir=tmp_path / "cache", **options)

    return compile_model


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(cache_dir: Path) -> Run:
    """run(kernel, machine, *arrays, threads=1): the kernel on arrays, one a parameter."""

    def run_kernel(kernel: Kernel, machine: Machine, *arrays: np.ndarray, threads: int = 1) -> None:
        run_segment(segment_of(kernel, machine, cache_dir), kernel, arrays, threads)

    return run_kernel


@pytest.fixture
def check(run: Run) -> Run:
    """check(kernel, machine, *arrays, threads=1, rtol=0): the kernel compared with its interpretation.

    The arrays are left as they are; what the kernel computed is returned, one array a parameter.
    """

    def check_kernel(
        kernel: Kernel, machine: Machine, *arrays: np.ndarray, threads: int = 1, rtol: float = 0.0
    ) -> list[np.ndarray]:
        found = [a.copy() for a in arrays]
        wanted = [a.copy() for a in arrays]
        run(kernel, machine, *found, threads=threads)
        interpret(kernel, wanted)
        for buffer, a, b in zip(kernel.params, found, wanted, strict=True):
            if buffer.dtype.is_float:  # NaN of bfloat16 is only known to be NaN after widening
                a, b = a.astype(np.float64), b.astype(np.float64)
            if rtol and buffer.dtype.is_float:
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=buffer.name)
            else:
                np.testing.assert_array_equal(a, b, err_msg=buffer.name)
        return found

    return check_kernel


@pytest.fixture
def segment(cache_dir: Path) -> Callable[[Kernel, Machine], Segment]:
    """segment(kernel, machine): a program of one call, assembled."""
    return lambda kernel, machine: segment_of(kernel, machine, cache_dir)
