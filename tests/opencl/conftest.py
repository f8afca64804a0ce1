"""The embedded OpenCL device, and kernels run on it from hand-made loop programs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright.config import CompileOptions
from tilewright.dtypes import DTYPES
from tilewright.errors import UsageError
from tilewright.loops.ir import Kernel, Role
from tilewright.program.callee import Callee
from tilewright.program.ir import CallKernel, Memory, Operand, Program, Space
from tilewright.program.planner import plan
from tilewright.segment import Segment
from tilewright.targets.opencl.device import OpenClDevice
from tilewright.targets.opencl.target import OpenClTarget

RunKernel = Callable[..., list[np.ndarray]]
THREADS = 1024  # more than any machine has: as many as the device runs on


@pytest.fixture(scope="session")
def target() -> OpenClTarget:
    """The target for the embedded device; without it, tests that need it are skipped with the reason."""
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    try:
        return OpenClTarget(None, CompileOptions(target="opencl"))
    except UsageError as error:
        pytest.skip(str(error))


def program_of(kernel: Kernel) -> Program:
    """A program that calls one kernel; parameters that are read are inputs, written ones are outputs."""
    memories = [Memory(p.name, p.dtype, p.shape, Space.MUTABLE, p.shape) for p in kernel.params]
    operands = tuple(Operand(m, role) for m, role in zip(memories, kernel.roles, strict=True))
    program = Program("one", body=(CallKernel(kernel.name, operands, (kernel.name,)),))
    program.kernels[kernel.name] = Callee.of(kernel)
    for memory, role in zip(memories, kernel.roles, strict=True):
        ports = program.inputs if role == Role.IN else program.outputs
        ports.append((memory.name, memory))
    return program


def run_segment(segment: Segment, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Fresh outputs of one run."""
    outputs = [np.empty(p.shape, DTYPES[p.dtype].numpy) for p in segment.outputs]
    OpenClDevice().load(segment, THREADS).run(inputs, outputs)
    return outputs


@pytest.fixture
def run_kernel(target: OpenClTarget) -> RunKernel:
    """run_kernel(kernel, *inputs) -> the arrays of its written parameters."""

    def run(kernel: Kernel, *inputs: np.ndarray) -> list[np.ndarray]:
        program = program_of(kernel)
        segment = target.assemble(program, plan(program))
        return run_segment(segment, [np.ascontiguousarray(a) for a in inputs])

    return run
