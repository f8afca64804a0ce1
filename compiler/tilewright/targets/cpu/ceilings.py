"""What this machine can do at most, measured by generated kernels: multiply-adds that stay in registers, dot
products of each instruction that it has, and reading memory.

They take the way of every other kernel (loop program, code generation, image, thread pool), so their figures
are what this code generator reaches, not what a data sheet promises.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.config import CompileOptions, usable_cpus
from tilewright.errors import UsageError
from tilewright.loops.ir import Role
from tilewright.loops.parse import parse_kernel
from tilewright.program.callee import Callee
from tilewright.program.ir import CallKernel, Memory, Operand, Program, Space
from tilewright.program.planner import plan
from tilewright.targets.cpu.codegen_dot import DOTS, LANE_BITS
from tilewright.targets.cpu.device import CpuDevice
from tilewright.targets.cpu.target import CpuTarget

# Enough independent chains for two units with a latency of four cycles, with registers to spare everywhere.
_CHAINS = 12
_STEPS = 400_000  # turns of the multiply-add kernel: about a millisecond
_FOOTPRINTS = (16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)  # bytes a thread reads
_READ_BYTES = 64 << 20  # what a thread reads in one run, over and over where the footprint is smaller
_RUNS = 40  # the best counts: whatever else runs on the machine only makes a run slower


@dataclass(frozen=True)
class Ceilings:
    """fma_gflops: fp32 multiply-adds of all threads together, two operations each.

    dots: 10^9 operations a second in loops of an intrinsic, by its name, for the instructions that the
    machine has; AMX tiles are not measured.
    read: (footprint in bytes, GB/s) of all threads together, footprints ascending.
    """

    threads: int
    fma_gflops: float
    dots: Mapping[str, float]
    read: tuple[tuple[int, float], ...]

    def bandwidth(self, footprint: int) -> float:
        """GB/s at which so many bytes can be read at best, when they lie in the fastest cache that holds
        them.
        """
        fitting = [rate for size, rate in self.read if size <= footprint]
        return min(fitting, default=self.read[0][1])


def measure_ceilings(threads: int | None = None, options: CompileOptions | None = None) -> Ceilings:
    """Measure for about a second. threads: None for all usable CPUs. Raises UsageError for more than
    those.
    """
    count = threads or usable_cpus()
    if count > usable_cpus():
        raise UsageError(f"{count} threads on {usable_cpus()} usable CPUs have no ceiling of their own")
    target = CpuTarget(None, options or CompileOptions())
    lanes = target.machine.lanes()
    operations = 2 * _CHAINS * lanes * _STEPS * count
    fma = operations / _best_seconds(target, _fma_text(lanes, count), {}, count)
    dots = {name: _dot_rate(target, name, count) for name, dot in DOTS.items() if dot.on(target.machine)}
    read = []
    for size in _FOOTPRINTS:
        rows = size // (4 * _CHAINS * lanes)
        data = np.ones((count, rows, _CHAINS * lanes), np.float32)
        turns = max(1, _READ_BYTES // size)
        seconds = _best_seconds(target, _read_text(lanes, count, rows, turns), {"x": data}, count)
        read.append((int(data.nbytes), turns * data.nbytes / seconds / 1e9))
    return Ceilings(count, fma / 1e9, dots, tuple(read))


def _fma_text(lanes: int, threads: int) -> str:
    """Every chain is s = s * a + b with a and b in registers; a below 1 keeps the values finite."""
    result = f"y: f32[{threads},{_CHAINS},{lanes}]"
    return f"""kernel fma_ceiling(@in a: f32[{lanes}], @in b: f32[{lanes}], @out {result}) {{
  parallel for t in 0 .. +{threads} {{
    alloc s: f32[{_CHAINS},{lanes}] in register {{
{_chains(lanes, "s[{c}, v] = b[v]")}
      serial for k in 0 .. +{_STEPS} {{
{_chains(lanes, "s[{c}, v] = ((s[{c}, v] * a[v]) + b[v])")}
      }}
{_chains(lanes, "y[t, {c}, v] = s[{c}, v]")}
    }}
  }}
}}
"""


def _dot_rate(target: CpuTarget, name: str, threads: int) -> float:
    """10^9 operations a second of an instruction that the machine has."""
    dot = DOTS[name]
    lanes = min(target.machine.vector_bits, dot.widest(target.machine)) // LANE_BITS
    operations = 2 * dot.terms * _CHAINS * lanes * _STEPS * threads
    return operations / _best_seconds(target, dot_text(name, lanes, threads), {}, threads) / 1e9


def dot_text(name: str, lanes: int, threads: int) -> str:
    """Every chain adds the same products of a lane's factors, which stay in registers."""
    dot = DOTS[name]
    zero = f"{0.0 if dot.sums.is_float else 0}:{dot.sums}"
    step = f"(s[{{c}}, v] + (cast:{dot.sums}(x[j]) * cast:{dot.sums}(w[v, j])))"
    terms = f"serial for j in 0 .. +{dot.terms} {{{{ s[{{c}}, v] = {step} }}}}"
    operands = f"@in x: {dot.x}[{dot.terms}], @in w: {dot.w}[{lanes},{dot.terms}]"
    return f"""kernel {name}_ceiling({operands}, @out y: {dot.sums}[{threads},{_CHAINS},{lanes}]) {{
  parallel for t in 0 .. +{threads} {{
    alloc s: {dot.sums}[{_CHAINS},{lanes}] in register {{
{_chains(lanes, f"s[{{c}}, v] = {zero}")}
      serial for k in 0 .. +{_STEPS} {{
{_chains(lanes, terms, f"tensorized({name}) ")}
      }}
{_chains(lanes, "y[t, {c}, v] = s[{c}, v]")}
    }}
  }}
}}
"""


def _read_text(lanes: int, threads: int, rows: int, turns: int) -> str:
    """Sums of everything that is read, one a chain, so that no read can be left out."""
    width, result = _CHAINS * lanes, f"y: f32[{threads},{_CHAINS},{lanes}]"
    return f"""kernel read_ceiling(@in x: f32[{threads},{rows},{width}], @out {result}) {{
  parallel for t in 0 .. +{threads} {{
    alloc s: f32[{_CHAINS},{lanes}] in register {{
{_chains(lanes, "s[{c}, v] = 0.0:f32")}
      serial for n in 0 .. +{turns} {{
        serial for k in 0 .. +{rows} {{
{_chains(lanes, "s[{c}, v] = (s[{c}, v] + x[t, k, (v + {at})])")}
        }}
      }}
{_chains(lanes, "y[t, {c}, v] = s[{c}, v]")}
    }}
  }}
}}
"""


def _chains(lanes: int, statement: str, intrinsic: str = "") -> str:
    lines = [
        f"vectorized {intrinsic}for v in 0 .. +{lanes} {{ {statement.format(c=c, at=c * lanes)} }}"
        for c in range(_CHAINS)
    ]
    return "\n".join(lines)


def _best_seconds(target: CpuTarget, text: str, constants: dict[str, np.ndarray], threads: int) -> float:
    """The shortest run of a kernel whose parameters are inputs, except those that `constants` names."""
    kernel = parse_kernel(text)
    memories = [
        Memory(b.name, b.dtype, b.shape, Space.CONSTANT if b.name in constants else Space.MUTABLE, b.shape)
        for b in kernel.params
    ]
    pairs = list(zip(memories, kernel.roles, strict=True))
    program = Program(
        name=kernel.name,
        inputs=[(m.name, m) for m, role in pairs if role == Role.IN and m.name not in constants],
        outputs=[(m.name, m) for m, role in pairs if role == Role.OUT],
        constants={m.name: (m, constants[m.name]) for m in memories if m.name in constants},
        body=(CallKernel(kernel.name, tuple(Operand(m, role) for m, role in pairs)),),
        kernels={kernel.name: Callee.of(kernel)},
    )
    loaded = CpuDevice().load(target.assemble(program, plan(program)), threads)
    inputs = [np.full(m.shape, 0.5 if m.dtype.is_float else 1, m.dtype.numpy) for _, m in program.inputs]
    outputs = [np.empty(m.shape, m.dtype.numpy) for _, m in program.outputs]
    seconds = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        loaded.run(inputs, outputs)
        seconds.append(time.perf_counter() - start)
    return min(seconds)
