"""Machines from feature flags."""

from __future__ import annotations

import platform

import pytest

from tilewright.targets.cpu import detect

AVX2 = frozenset({"sse2", "avx", "avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512vl", "avx512dq", "avx512bw"}


@pytest.mark.parametrize(
    ("features", "bits", "registers"),
    [
        (frozenset({"sse2"}), 128, 16),
        (frozenset({"sse2", "avx"}), 128, 16),
        (AVX2 - {"fma"}, 128, 16),
        (AVX2, 256, 16),
        (AVX2 | {"avx512f"}, 256, 16),
        (AVX512, 512, 32),
    ],
)
def test_registers_follow_from_flags(features: frozenset[str], bits: int, registers: int) -> None:
    machine = detect.from_features("m", features)
    assert (machine.vector_bits, machine.registers) == (bits, registers)
    assert machine.features == tuple(sorted(features))


def test_units_follow_from_flags() -> None:
    machine = detect.from_features("m", AVX512 | {"avx512vnni", "amx-tile", "amx-int8"})
    assert dict(machine.units) == {"fma": 1, "vnni": 1, "amx_int8": 1}


def test_tiles_need_the_flag_and_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "tile_permission", lambda: False)
    assert not detect.may_use_tiles(AVX512 | {"amx-tile"})
    monkeypatch.setattr(detect, "tile_permission", lambda: True)
    assert detect.may_use_tiles(AVX512 | {"amx-tile"})
    assert not detect.may_use_tiles(AVX512)


@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux",
    reason="the host is no x86-64 Linux machine",
)
def test_host_is_a_machine_that_runs_here() -> None:
    from tilewright.targets.cpu.device import host_flags, missing_features

    machine = detect.host()
    assert machine.triple.startswith("x86_64")
    assert len(machine.caches) == 3
    assert all(size >= 4096 for size in machine.caches)
    assert missing_features(machine.features, host_flags()) == []
