"""Kernels from several processes: the same as from one, whatever becomes of the processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import tilewright as tw
import tilewright.ops.all
from tilewright.config import CompileOptions
from tilewright.dtypes import F32
from tilewright.errors import LoweringError
from tilewright.graph.ir import Function, Module, Node
from tilewright.lower import kernels, parallel
from tilewright.lower.kernel import Lowered
from tilewright.lower.target import Choice, Group
from tilewright.ops.operator import Builder
from tilewright.runtime.executable import Executable
from tilewright.targets.cpu.target import CpuTarget
from tilewright.types import TensorType

Helpers = list[parallel._Helper]
OPS = ("Relu", "Exp", "Tanh", "Sqrt", "Neg", "Abs", "Sigmoid", "Floor", "Log", "Sin", "Cos", "Erf")


def chain() -> Function:
    """A graph of many different kernels, one of which reads a large constant and one a literal."""
    function = Function("main")
    builder = Builder(function)
    value = function.add_input("x", TensorType(F32, (1, 8, 6, 6)))
    weights = function.constant(np.ones((8, 8, 3, 3), np.float32), "w")
    value = builder.op("Conv", value, weights, None, strides=(1, 1), dilations=(1, 1), pads=(1, 1, 1, 1))
    value = builder.op("Mul", value, function.constant(np.float32(0.5)))
    for op in OPS:
        value = builder.op(op, value, label=op.lower())
    function.outputs, function.output_names = [value], ["y"]
    return function


class RefusingTarget(CpuTarget):
    """Fails where a group holds one of some operators."""

    refused: tuple[str, ...] = ()

    def schedule(self, group: Group) -> Choice:
        if set(self.refused) & set(group.ops):
            raise LoweringError(f"{group.ops[0]} is refused")
        return super().schedule(group)


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Helpers:
    """Processes are started without a wait to see whether they are worth it; those that were started."""
    found: Helpers = []

    class Recorded(parallel._Helper):
        def start(self) -> None:
            found.append(self)
            super().start()

    monkeypatch.setattr(parallel, "START_SECONDS", 1e-9)
    monkeypatch.setattr(parallel, "_Helper", Recorded)
    return found


def lower(nodes: list[Node], target: CpuTarget, processes: int, helpers: Helpers) -> list[Lowered]:
    """The others lower all nodes but the first and the one that this process takes meanwhile."""
    return parallel.lower_each(nodes, target, processes, lambda done, node: wait_for(helpers))


def wait_for(helpers: Helpers) -> None:
    for helper in helpers:
        helper.join()


def all_ended(helpers: Helpers) -> bool:
    return all(helper.process.poll() is not None for helper in helpers)


def target(folder: Path) -> RefusingTarget:
    return RefusingTarget(None, CompileOptions(cache_dir=folder))


def test_any_number_of_processes_gives_the_same_kernels(tmp_path: Path, helpers: Helpers) -> None:
    nodes = chain().nodes
    alone = lower(nodes, target(tmp_path / "alone"), 1, helpers)
    assert not helpers
    together = lower(nodes, target(tmp_path / "together"), 4, helpers)
    assert len(helpers) == 3
    assert together == alone
    assert [one.callee.kernel for one in together] == [one.callee.kernel for one in alone]
    assert all(one.callee.code for one in alone)
    assert all_ended(helpers)


def test_images_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helpers: Helpers) -> None:
    def compiled(processes: int) -> Executable:
        monkeypatch.setattr(kernels, "usable_cpus", lambda: processes)
        folder = tmp_path / str(processes)
        return tw.compile(
            Module({"main": chain()}),
            opt_level=0,
            threads=1,
            cache_dir=folder,
            progress=lambda done, total, name: wait_for(helpers),
        )

    alone, together = compiled(1), compiled(3)
    assert len(helpers) == 2
    (one,), (other,) = alone.package.segments, together.package.segments
    assert one.code == other.code
    assert [row["name"] for row in one.info["kernels"]] == [row["name"] for row in other.info["kernels"]]


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(
    ("refused", "named"), [(("Sqrt", "Sin"), "sqrt"), (("Erf",), "erf"), (("Conv",), "conv")]
)
def test_the_first_node_that_fails_is_named(
    tmp_path: Path,
    helpers: Helpers,
    processes: int,
    refused: tuple[str, ...],
    named: str,
) -> None:
    refusing = target(tmp_path)
    refusing.refused = refused
    with pytest.raises(LoweringError, match=f"node '{named}': .* is refused"):
        lower(chain().nodes, refusing, processes, helpers)
    assert all_ended(helpers)


@pytest.mark.parametrize(
    "program", ["raise SystemExit", "import os, sys; sys.stdin.buffer.read(9); os.abort()"]
)
def test_what_a_lost_process_leaves_is_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helpers: Helpers, program: str
) -> None:
    monkeypatch.setattr(parallel, "_WORKER", program)
    assert len(lower(chain().nodes, target(tmp_path), 3, helpers)) == len(chain().nodes)
    assert len(helpers) == 2


def test_what_no_process_can_be_started_for_is_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helpers: Helpers
) -> None:
    def refuse(*given: object, **options: object) -> NoReturn:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(parallel.subprocess, "Popen", refuse)
    assert len(lower(chain().nodes, target(tmp_path), 3, helpers)) == len(chain().nodes)
    assert not helpers


def test_an_interrupt_ends_all_processes(tmp_path: Path, helpers: Helpers) -> None:
    def report(done: int, node: Node) -> None:
        if helpers:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parallel.lower_each(chain().nodes, target(tmp_path), 3, report)
    assert len(helpers) == 2
    assert all_ended(helpers)


@pytest.mark.parametrize(
    ("seconds", "processes", "started"),
    [(100, 1, 0), (0.9, 2, 0), (1.1, 2, 1), (0.9, 8, 0), (2.1, 8, 3), (100, 8, 7)],
)
def test_every_process_has_more_to_do_than_its_start_costs(
    seconds: float, processes: int, started: int
) -> None:
    assert parallel._worth(seconds, processes) == started


def test_an_application_that_is_its_own_interpreter_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert parallel._worth(100, 8) == 0


SCRIPT = """
import sys
import tilewright as tw
import tilewright.ops.all
from tilewright.lower import kernels, parallel
print("begins", flush=True)
parallel.START_SECONDS = 1e-9
kernels.usable_cpus = lambda: 3
tw.compile(sys.argv[1], opt_level=0, cache_dir=sys.argv[2])
"""


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path, onnx_chain: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(onnx_chain), str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "begins\n"
    assert done.stderr == ""


def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path, onnx_chain: Path) -> None:
    script = tmp_path / "script.py"
    ending = """
import os
started = parallel._Helper.start
def start(helper):
    print(helper.process.pid, flush=True)
    started(helper)
    os.kill(os.getpid(), 9)
parallel._Helper.start = start
"""
    script.write_text(SCRIPT.replace("tw.compile", f"{ending}tw.compile"))
    command = [sys.executable, str(script), str(onnx_chain), str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    (process,) = (int(word) for word in done.stdout.split()[1:])
    for _ in range(600):  # it ends once it has read that nothing more comes
        if not _runs(process):
            return
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    pytest.fail("the process outlives the one that started it")


def _runs(process: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def onnx_chain(tmp_path: Path) -> Path:
    """A file of several unlike kernels at -O0."""
    from onnx import TensorProto, helper, save

    names = ["x", *OPS]
    nodes = [helper.make_node(op, [names[position]], [op], name=op) for position, op in enumerate(OPS)]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "chain", [tensor("x", TensorProto.FLOAT, [3, 5])], [tensor(OPS[-1], TensorProto.FLOAT, [3, 5])]
    )
    path = tmp_path / "chain.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
