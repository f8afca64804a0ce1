"""Running one loop program through the CPU target, and the features of machines to compile it for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.config import CompileOptions
from tilewright.loops.ir import Kernel, Role
from tilewright.machine import Machine
from tilewright.program.callee import Callee
from tilewright.program.ir import CallKernel, Memory, Operand, Program, Space
from tilewright.program.plan import Plan
from tilewright.segment import Segment
from tilewright.targets.cpu.device import CpuDevice
from tilewright.targets.cpu.target import CpuTarget

SSE = frozenset({"sse", "sse2"})
AVX2 = SSE | frozenset(
    {
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi",
        "bmi2",
        "lzcnt",
        "movbe",
    }
)
AVX512 = AVX2 | frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"})
TILES = frozenset({"amx-tile", "amx-bf16", "amx-int8"})
AMX = AVX512 | TILES | {"avx512bf16", "avx512vnni"}


def program_of(kernel: Kernel) -> tuple[Program, Plan]:
    """A program that calls the kernel once; every parameter is an input, an output or both."""
    memories = [Memory(b.name, b.dtype, b.shape, Space.MUTABLE, b.shape) for b in kernel.params]
    offsets: dict[str, int] = {}
    end = 0
    for memory in memories:
        offsets[memory.name] = end
        end += -(-memory.bytes // 64) * 64
    pairs = list(zip(memories, kernel.roles, strict=True))
    program = Program(
        name="test",
        inputs=[(m.name, m) for m, role in pairs if role in (Role.IN, Role.INOUT)],
        outputs=[(m.name, m) for m, role in pairs if role in (Role.OUT, Role.INOUT)],
        body=(CallKernel(kernel.name, tuple(Operand(m, role) for m, role in pairs)),),
        kernels={kernel.name: Callee.of(kernel)},
    )
    return program, Plan(offsets, 0, end, 0, 0, 0)


def segment_of(kernel: Kernel, machine: Machine, cache_dir: Path) -> Segment:
    target = CpuTarget(machine, CompileOptions(cache_dir=cache_dir))
    return target.assemble(*program_of(kernel))


def run_segment(segment: Segment, kernel: Kernel, arrays: Sequence[np.ndarray], threads: int) -> None:
    """arrays: one a parameter; those that the kernel writes are changed."""
    loaded = CpuDevice().load(segment, threads)
    pairs = list(zip(arrays, kernel.roles, strict=True))
    loaded.run(
        [a for a, role in pairs if role in (Role.IN, Role.INOUT)],
        [a for a, role in pairs if role in (Role.OUT, Role.INOUT)],
    )
