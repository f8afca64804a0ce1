"""Devices by name, limits, and what the runtime asks of a loaded segment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import THREADS, program_of

from tilewright.config import CompileOptions
from tilewright.dtypes import F32
from tilewright.errors import ArtefactError, CodegenError, UsageError
from tilewright.expr import Var, const, read
from tilewright.loops.ir import Allocate, Buffer, For, Kernel, LoopKind, Role, Store
from tilewright.program.callee import Callee
from tilewright.program.ir import Branch, CallKernel, Copy, Loop, Memory, Operand, Program, Space
from tilewright.program.planner import plan
from tilewright.segment import Segment
from tilewright.targets.opencl import platforms
from tilewright.targets.opencl.detect import detect
from tilewright.targets.opencl.device import OpenClDevice
from tilewright.targets.opencl.launches import group_size
from tilewright.targets.opencl.target import OpenClTarget

N = Var("n")


def double(size: int, scope: str = "") -> Kernel:
    """out = 2 x; with a scope, by way of a buffer of that scope and a group of `size` items."""
    x, out = Buffer("x", F32, (size,)), Buffer("out", F32, (size,))
    body = Store(out, (N,), read(x, [N]) * 2.0)
    thread = "local.0" if scope else "global.0"
    loop = For(N, const(size), body, LoopKind.BOUND, thread=thread)
    whole = Allocate(Buffer("kept", F32, (1 << 24,), scope), loop) if scope else loop
    return Kernel("double", (x, out), (Role.IN, Role.OUT), whole)


def segment_of(target: OpenClTarget, kernel: Kernel) -> Segment:
    program = program_of(kernel)
    return target.assemble(program, plan(program))


def found(label: str, version: str = "OpenCL 3.0 PoCL 5") -> platforms.Found:
    return platforms.Found(label, version, None)


def test_without_a_name_the_embedded_device_is_meant(target):
    chosen = platforms.choose_device()
    assert chosen.is_embedded
    assert chosen.label == target.machine.name


@pytest.mark.parametrize("part", ["portable computing", "POCL 3", "pthread"])
def test_any_part_of_the_name_will_do(target, part):
    assert platforms.choose_device(part).label == target.machine.name


def test_an_unknown_name_lists_what_is_present(target):
    with pytest.raises(UsageError, match=r"no OpenCL device fits 'Mali'.*Portable Computing"):
        OpenClTarget(None, CompileOptions(target="opencl:Mali"))


def test_no_device_says_what_to_install(monkeypatch):
    monkeypatch.setattr(platforms, "list_devices", lambda threads: [])
    with pytest.raises(UsageError, match=r"pip install 'tilewright\[opencl\]'"):
        platforms.choose_device()


def test_a_missing_pyopencl_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(UsageError, match=r"needs pyopencl.*tilewright\[opencl\]"):
        platforms.pyopencl_module()


def test_the_wheel_wins_over_another_pocl_and_two_equal_ones_are_refused(monkeypatch):
    pocl = "Portable Computing Language: cpu"
    wheel, apt = found(pocl, "PoCL 3.0 RELOC"), found(f"{pocl} #2", "PoCL 3.1")
    monkeypatch.setattr(platforms, "list_devices", lambda threads: [apt, wheel, found("Other: gpu")])
    assert platforms.choose_device() is wheel
    assert platforms.choose_device("3.1") is apt
    assert platforms.choose_device(pocl) is wheel, "a whole label wins over parts"
    with pytest.raises(UsageError, match="2 OpenCL devices fit 'cpu'"):
        platforms.choose_device("cpu")
    monkeypatch.setattr(platforms, "list_devices", lambda threads: [found("Other: gpu")])
    with pytest.raises(UsageError, match=r"embedded OpenCL device is absent.*'Other: gpu'"):
        platforms.choose_device()


def test_the_machine_has_the_devices_limits(target):
    machine = detect(target.device, THREADS)
    assert machine.key == target.machine.key
    assert machine.limits["work_group"] >= 64
    assert machine.units["compute"] >= 1
    assert machine.has("fp64")


def test_too_large_groups_and_too_much_local_memory_are_refused_before_launch(target):
    items = target.machine.limits["work_group"] + 1
    with pytest.raises(CodegenError, match=f"needs {items} items in a work-group"):
        segment_of(target, double(items, "shared"))
    with pytest.raises(CodegenError, match="bytes of local memory"):
        segment_of(target, double(64, "shared"))


def test_a_device_that_is_too_small_refuses_the_artefact(target):
    segment = segment_of(target, double(8))
    huge = replace(segment, arena_bytes=1 << 50)
    with pytest.raises(ArtefactError, match=r"activations need one buffer of 1125899906842624 bytes"):
        OpenClDevice().load(huge, THREADS)
    code = json.loads(segment.code)
    code["needs"]["work_group"] = 1 << 30
    with pytest.raises(ArtefactError, match="items in a work-group"):
        OpenClDevice().load(replace(segment, code=json.dumps(code).encode()), THREADS)
    with pytest.raises(ArtefactError, match="damaged"):
        OpenClDevice().load(replace(segment, code=b"{"), THREADS)


def test_sizes_may_be_numpy_integers_and_empty(target):
    segment = segment_of(target, double(8))
    odd = replace(segment, mutable_bytes=np.int64(segment.mutable_bytes), arena_bytes=np.int64(0))
    x, out = np.arange(8, dtype=np.float32), np.empty(8, np.float32)
    OpenClDevice().load(odd, THREADS).run([x], [out])
    np.testing.assert_array_equal(out, 2 * x)


def test_concurrent_runs_do_not_mix(target):
    loaded = OpenClDevice().load(segment_of(target, double(1000)), THREADS)

    def one(seed: int) -> bool:
        x, out = np.full(1000, seed, np.float32), np.empty(1000, np.float32)
        loaded.run([x], [out])
        return bool((out == 2 * seed).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(40)))


def test_a_trace_names_every_launch(target):
    loaded = OpenClDevice().load(segment_of(target, double(8)), THREADS)
    x, out = np.ones(8, np.float32), np.empty(8, np.float32)
    ((name, seconds),) = loaded.trace([x], [out])
    assert name == "double"
    assert seconds > 0
    assert (out == 2).all()


def test_loops_slices_copies_and_branches_of_a_program(target):
    """Turns run backwards over slices of the leading axis; a branch is taken by a flag in memory."""
    kernel = double(4)
    x = Memory("in", F32, (3, 4), Space.MUTABLE, (3, 4))
    flag = Memory("flag", F32, (1,), Space.MUTABLE, (1,))
    out = Memory("out", F32, (3, 4), Space.MUTABLE, (3, 4))
    last = Memory("last", F32, (4,), Space.MUTABLE, (4,))
    turn = (
        CallKernel("double", (Operand(x, Role.IN, "t"), Operand(out, Role.OUT, "t"))),
        Copy(Operand(last, Role.OUT), Operand(out, Role.IN, "t")),
    )
    again = CallKernel("double", (Operand(last, Role.IN), Operand(out, Role.OUT, "t")))
    body = (
        Loop("t", 3, turn, reverse=True),
        Branch(Operand(flag, Role.IN), (Loop("t", 1, (again,)),)),
    )
    program = Program(
        "p", inputs=[("in", x), ("flag", flag)], outputs=[("out", out), ("last", last)], body=body
    )
    program.kernels["double"] = Callee.of(kernel)
    loaded = OpenClDevice().load(target.assemble(program, plan(program)), THREADS)
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    for taken in (False, True):
        switch = np.frombuffer(bytes([taken, 0, 0, 0]), np.float32)
        got, kept = np.empty((3, 4), np.float32), np.empty(4, np.float32)
        loaded.run([data, switch], [got, kept])
        want = 2 * data
        if taken:
            want[0] *= 2
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(kept, 2 * data[0])


def test_group_sizes_divide_and_leave_work_for_every_unit(target):
    machine = replace(target.machine, units={"compute": 2})
    assert group_size((7, 56, 64), machine) == (7, 8, 1)
    assert group_size((1000,), machine) == (50,)
    assert group_size((4,), machine) == (1,)
    assert group_size((997, 1), machine) == (1, 1)


PROBE = """
from tilewright.targets.opencl.platforms import choose_device
print(choose_device("", {threads}).handle.max_compute_units)
"""


def probe(threads: int, **environment: str) -> subprocess.CompletedProcess[str]:
    code = PROBE.format(threads=threads)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_an_unwritable_home_gets_a_private_cache_folder(target):
    done = probe(THREADS, HOME="/proc/nowhere", PATH="/usr/bin")
    assert done.returncode == 0, done.stderr


def test_the_thread_count_is_heeded_by_a_fresh_process(target, tmp_path):
    done = probe(1, HOME=str(tmp_path))
    assert (done.stdout.strip(), done.stderr) == ("1", "")


def test_more_threads_than_asked_for_are_refused(target, tmp_path):
    if (target.machine.units["compute"]) < 2:
        pytest.skip("the device has one compute unit")
    with pytest.raises(UsageError, match=r"runs on \d+ threads in this process, not on 1"):
        platforms.choose_device("", 1)


DAMAGE = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np
from test_devices import OpenClDevice, OpenClTarget, CompileOptions, double, segment_of
target = OpenClTarget(None, CompileOptions(target="opencl"))
out = np.empty(8, np.float32)
OpenClDevice().load(segment_of(target, double(8)), 1024).run([np.ones(8, np.float32)], [out])
print(out.sum())
"""


def test_a_machine_without_a_linker_says_what_to_install(target, monkeypatch):
    segment = segment_of(target, double(8))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ArtefactError, match=r"needs the linker 'ld'.*binutils"):
        OpenClDevice().load(segment, THREADS)


def test_a_damaged_driver_cache_is_bypassed(target, tmp_path):
    """What a process leaves that dies while PoCL writes: a program without its kernels."""
    code = DAMAGE.format(tests=str(Path(__file__).parent))
    cache = {"HOME": str(tmp_path), "POCL_CACHE_DIR": str(tmp_path / "pocl")}
    environment = {"PATH": os.environ["PATH"], **cache}
    for turn in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "16.0", (turn, done.stderr)
        programs = list((tmp_path / "pocl").rglob("program.bc"))
        assert programs
        for path in programs:
            path.write_bytes(b"")
