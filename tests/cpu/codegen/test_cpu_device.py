"""Running segments: concurrent runs, forks, whole programs with loops, branches and copies, and refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.config import CompileOptions
from tilewright.dtypes import BOOL, F32
from tilewright.errors import ArtefactError, CodegenError
from tilewright.expr import Var, add, const, mul, read
from tilewright.loops.ir import Buffer, For, Kernel, LoopKind, Role, Store
from tilewright.program.callee import Callee
from tilewright.program.ir import Branch, CallKernel, Copy, Instruction, Loop, Memory, Operand, Program, Space
from tilewright.program.plan import Plan
from tilewright.targets.cpu import device
from tilewright.targets.cpu.detect import host
from tilewright.targets.cpu.target import CpuTarget

ROWS, WIDTH = 37, 64
i, j, v = Var("i"), Var("j"), Var("v")


def scale_kernel(kind: LoopKind = LoopKind.PARALLEL) -> Kernel:
    """y = 2 x + 1, rows in parallel."""
    x, y = Buffer("x", F32, (ROWS, WIDTH)), Buffer("y", F32, (ROWS, WIDTH))
    at = (i, add(mul(j, const(8)), v))
    value = add(mul(read(x, at), const(2.0, F32)), const(1.0, F32))
    row = For(j, const(WIDTH // 8), For(v, const(8), Store(y, at, value), LoopKind.VECTORIZED))
    return Kernel("scale", (x, y), (Role.IN, Role.OUT), For(i, const(ROWS), row, kind))


def inputs(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, WIDTH)).astype(np.float32)


def test_eight_python_threads_run_one_segment(segment) -> None:
    loaded = device.CpuDevice().load(segment(scale_kernel(), host()), 2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        x, y = inputs(seed), np.zeros((ROWS, WIDTH), np.float32)
        for _ in range(200):
            y[...] = 0
            loaded.run([x], [y])
            if not np.array_equal(y, x * np.float32(2) + np.float32(1)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_results_do_not_depend_on_the_number_of_threads(
    segment, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More threads than processors: late and sleeping ones included."""
    monkeypatch.setattr(device, "usable_cpus", lambda: 8)
    loaded = device.CpuDevice().load(segment(scale_kernel(), host()), threads)
    x, y = inputs(1), np.zeros((ROWS, WIDTH), np.float32)
    for _ in range(50):
        y[...] = 0
        loaded.run([x], [y])
        np.testing.assert_array_equal(y, x * 2 + 1)


def test_child_of_a_fork_starts_threads_of_its_own(segment) -> None:
    loaded = device.CpuDevice().load(segment(scale_kernel(), host()), 2)
    x, y = inputs(2), np.zeros((ROWS, WIDTH), np.float32)
    loaded.run([x], [y])
    child = os.fork()
    if child == 0:
        y[...] = 0
        loaded.run([x], [y])
        os._exit(0 if np.array_equal(y, x * 2 + 1) else 3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    loaded.run([x], [y])
    np.testing.assert_array_equal(y, x * 2 + 1)


def test_trace_names_what_ran(segment) -> None:
    loaded = device.CpuDevice().load(segment(scale_kernel(), host()), 1)
    x, y = inputs(3), np.zeros((ROWS, WIDTH), np.float32)
    steps = loaded.trace([x], [y])
    assert [name for name, _ in steps] == ["scale"]
    assert all(seconds > 0 for _, seconds in steps)
    np.testing.assert_array_equal(y, x * 2 + 1)


def test_missing_features_are_named(segment) -> None:
    made = segment(scale_kernel(), host())
    foreign = replace(made, features=(*made.features, "avx10.9"))
    with pytest.raises(ArtefactError, match=r"processor with avx10\.9"):
        device.CpuDevice().load(foreign, 1)
    assert device.missing_features(["sse4.1", "avx512vnni"], frozenset({"sse4_1"})) == ["avx512vnni"]


def test_damaged_code_is_refused(segment) -> None:
    made = segment(scale_kernel(), host())
    for code in (b"", made.code[:20], b"X" + made.code[1:]):
        with pytest.raises(ArtefactError, match=r"cut short|another version"):
            device.CpuDevice().load(replace(made, code=code), 1)


def test_loading_needs_no_compiler(segment, tmp_path: Path) -> None:
    made = segment(scale_kernel(), host())
    (tmp_path / "code").write_bytes(made.code)
    ports = [(p.name, p.offset) for p in made.inputs + made.outputs]
    script = f"""
import sys
import numpy as np
from tilewright.segment import Port, Segment
from tilewright.targets.cpu.device import CpuDevice
code = open({str(tmp_path / "code")!r}, "rb").read()
ports = [Port(name, "f32", ({ROWS}, {WIDTH}), offset) for name, offset in {ports}]
segment = Segment("cpu", code, np.zeros(0, np.uint8), (ports[0],), (ports[1],), {made.mutable_bytes}, 0)
x, y = np.ones(({ROWS}, {WIDTH}), np.float32), np.zeros(({ROWS}, {WIDTH}), np.float32)
CpuDevice().load(segment, 2).run([x], [y])
assert (y == 3).all()
extra = [m for m in sys.modules if m == "llvmlite" or m.startswith("tilewright.loops")]
assert not extra, extra
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_the_first_run_needs_is_there_when_a_segment_is_loaded(segment, tmp_path: Path) -> None:
    made = segment(scale_kernel(), host())
    (tmp_path / "code").write_bytes(made.code)
    script = f"""
import os
import numpy as np
from tilewright.segment import Segment
from tilewright.targets.cpu import device
def state():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["Threads"]), int(status["VmRSS"].split()[0])
code = open({str(tmp_path / "code")!r}, "rb").read()
device.usable_cpus = lambda: 3
segment = Segment("cpu", code, np.zeros(0, np.uint8), (), (), 0, 16 << 20)
threads, memory = state()
loaded = device.CpuDevice().load(segment, 3)
more = state()
assert more[0] == threads + 2, more
assert more[1] > memory + (15 << 10), (memory, more)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _accumulate() -> Kernel:
    """total = 3 * total + x, so that the order of calls shows."""
    x, total = Buffer("x", F32, (4,)), Buffer("total", F32, (4,))
    value = add(mul(read(total, (v,)), const(3.0, F32)), read(x, (v,)))
    body = For(v, const(4), Store(total, (v,), value), LoopKind.VECTORIZED)
    return Kernel("accumulate", (x, total), (Role.IN, Role.INOUT), body)


def _run_program(
    body: tuple[Instruction, ...], memories: dict[str, Memory], arrays: dict[str, np.ndarray], cache_dir: Path
) -> np.ndarray:
    offsets, ends = {}, dict.fromkeys(Space, 0)
    for name, memory in memories.items():
        offsets[name] = ends[memory.space]
        ends[memory.space] += -(-memory.bytes // 64) * 64
    program = Program(
        "program",
        constants={n: (m, arrays[n]) for n, m in memories.items() if m.space == Space.CONSTANT},
        inputs=[(n, m) for n, m in memories.items() if m.space == Space.MUTABLE and n in arrays],
        outputs=[("out", memories["out"])],
        body=body,
        kernels={"accumulate": Callee.of(_accumulate())},
    )
    sizes = (ends[Space.ACTIVATION], ends[Space.MUTABLE], ends[Space.CONSTANT])
    plan = Plan(offsets, *sizes, 0, 0)
    made = CpuTarget(host(), CompileOptions(cache_dir=cache_dir)).assemble(program, plan)
    loaded = device.CpuDevice().load(made, 2)
    result = np.zeros(memories["out"].logical, np.float32)
    loaded.run([arrays[name] for name, _ in program.inputs], [result])
    return result


@pytest.mark.parametrize("reverse", [False, True])
def test_program_loop_walks_slices(cache_dir: Path, reverse: bool) -> None:
    rows = Memory("rows", F32, (5, 4), Space.CONSTANT, (5, 4))
    start = Memory("start", F32, (4,), Space.MUTABLE, (4,))
    state = Memory("state", F32, (4,), Space.ACTIVATION, (4,))
    out = Memory("out", F32, (5, 4), Space.MUTABLE, (5, 4))
    body = (
        Copy(Operand(state, Role.OUT), Operand(start, Role.IN)),
        Loop(
            "t",
            5,
            (
                CallKernel("accumulate", (Operand(rows, Role.IN, "t"), Operand(state, Role.INOUT))),
                Copy(Operand(out, Role.OUT, "t"), Operand(state, Role.IN)),
            ),
            reverse,
        ),
    )
    data = {"rows": inputs(4)[:5, :4].copy(), "start": inputs(5)[0, :4].copy()}
    found = _run_program(body, {m.name: m for m in (rows, start, state, out)}, data, cache_dir)
    wanted, total = np.zeros((5, 4), np.float32), data["start"]
    for t in reversed(range(5)) if reverse else range(5):
        total = total * 3 + data["rows"][t]
        wanted[t] = total
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("flag", [False, True])
def test_program_branch(cache_dir: Path, flag: bool) -> None:
    a = Memory("a", F32, (4,), Space.MUTABLE, (4,))
    condition = Memory("condition", BOOL, (), Space.MUTABLE, ())
    out = Memory("out", F32, (4,), Space.MUTABLE, (4,))
    copy = Copy(Operand(out, Role.OUT), Operand(a, Role.IN))
    call = CallKernel("accumulate", (Operand(a, Role.IN), Operand(out, Role.INOUT)))
    body = (copy, Branch(Operand(condition, Role.IN), (call,), (call, call)))
    data = {"a": inputs(6)[0, :4].copy(), "condition": np.array(flag)}
    found = _run_program(body, {m.name: m for m in (a, condition, out)}, data, cache_dir)
    np.testing.assert_allclose(found, data["a"] * (4 if flag else 13), rtol=1e-5)


def test_copy_of_odd_sizes(cache_dir: Path) -> None:
    for size in (1, 15, 16, 17, 67):
        a = Memory("a", F32, (size,), Space.MUTABLE, (size,))
        out = Memory("out", F32, (size,), Space.MUTABLE, (size,))
        body = (Copy(Operand(out, Role.OUT), Operand(a, Role.IN)),)
        data = {"a": np.arange(size, dtype=np.float32)}
        np.testing.assert_array_equal(_run_program(body, {"a": a, "out": out}, data, cache_dir), data["a"])


def test_buffer_without_a_place_is_refused(cache_dir: Path) -> None:
    kernel = _accumulate()
    lost = Memory("lost", F32, (4,), Space.ACTIVATION, (4,))
    call = CallKernel("accumulate", (Operand(lost, Role.IN), Operand(lost, Role.INOUT)))
    program = Program("program", body=(call,), kernels={"accumulate": Callee.of(kernel)})
    target = CpuTarget(host(), CompileOptions(cache_dir=cache_dir))
    with pytest.raises(CodegenError, match="'lost' has no place"):
        target.assemble(program, Plan({}, 0, 0, 0, 0, 0))
