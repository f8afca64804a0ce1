"""Compiling, loading and running leave nothing behind: no mapping, file, thread or native memory."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.runtime.executable import Executable
from tilewright.targets.cpu.detect import host
from tilewright.targets.cpu.objects import compile_text

ROUNDS = 8
KERNEL = """
define i64 @kernel(i64 %x, i64 %y) {
  %sum = add i64 %x, %y
  ret i64 %sum
}
"""


class _Memory(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = tuple((name, ctypes.c_size_t) for name in names.split())


def allocated() -> int:
    """Bytes that native code holds: not what the process keeps for later, as its resident size is."""
    try:
        count = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        pytest.skip("this C library does not count its memory (glibc 2.33 does)")
    count.restype = _Memory
    found = count()
    return int(found.uordblks + found.hblkhd)


def holdings() -> dict[str, int]:
    """What a process can hold, counted."""
    gc.collect()
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {
        "code": sum(" r-xp " in line and "/" not in line for line in lines),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "executables": sum(isinstance(thing, Executable) for thing in gc.get_objects()),
    }


def model(width: int) -> bytes:
    """A product, an activation, and a branch that the data take."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 32])
    weights = np.ones((width, 32), np.float32)
    branches = []
    for op in ("Relu", "Neg"):
        result = helper.make_tensor_value_info(op, TensorProto.FLOAT, [64, 32])
        branches.append(helper.make_graph([helper.make_node(op, ["product"], [op])], op, [], [result]))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("ReduceMax", ["product"], ["largest"], keepdims=0),
        helper.make_node("Greater", ["largest", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])
    constants = [helper.make_tensor("w", TensorProto.FLOAT, [width, 32], weights.tobytes(), raw=True), zero]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()


def use(width: int, folder: Path) -> None:
    """Compile, run, save, load and run again."""
    exe = tw.compile(model(width), threads=2, cache_dir=folder / "cache")
    x = np.ones((64, width), np.float32)
    np.testing.assert_array_equal(exe(x), np.full((64, 32), width, np.float32))
    exe.save(folder / "saved.tw")
    np.testing.assert_array_equal(Executable.load(folder / "saved.tw", threads=2)(-x), exe(-x))


def test_executables_go_with_all_they_hold(tmp_path: Path) -> None:
    use(8, tmp_path)  # the first one starts the threads, and its code stays: they run in it
    before, files = holdings(), set(os.listdir(tempfile.gettempdir()))
    for width in range(16, 16 + ROUNDS):
        use(width, tmp_path)
    assert holdings() == before
    left = {name for name in os.listdir(tempfile.gettempdir()) if "tilewright" in name} - files
    assert not left


def test_compiling_leaves_no_native_memory() -> None:
    """Passes of LLVM that are not freed are 50 kB for the smallest module."""
    compile_text(KERNEL, host())
    compile_text(KERNEL, host())
    before = allocated()
    for _ in range(ROUNDS):
        compile_text(KERNEL, host())
    gc.collect()
    assert allocated() - before < ROUNDS * 16_000
