"""Programs from graphs: shared kernels, views, scans, and errors that name everything at once."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.ops.all
from tilewright.dtypes import F32
from tilewright.errors import LoweringError
from tilewright.graph.ir import Function, Module
from tilewright.lower.build import build_program
from tilewright.lower.group import make_group
from tilewright.machine import Machine
from tilewright.ops.control import scan
from tilewright.ops.operator import Builder
from tilewright.passes.storage import ChooseStorage
from tilewright.program.ir import CallKernel, Copy, walk
from tilewright.targets.cpu.costs import CpuCosts
from tilewright.targets.cpu.schedules.choose import choose
from tilewright.types import TensorType

MACHINE = Machine("test", "x86_64-unknown-linux-gnu", (), 512, 32)


class Target:
    """The CPU target's decisions without its code generator."""

    name = "cpu"
    machine = MACHINE
    schedule_key = MACHINE.key

    def should_lower(self, node):
        return False

    def wish(self, node):
        return CpuCosts(MACHINE).wish(node)

    def pack_cost(self, type):
        return CpuCosts(MACHINE).pack_cost(type)

    def schedule(self, group):
        return choose(group, MACHINE)

    def compile_kernel(self, callee):
        return b""


def convolutions(count: int) -> Function:
    """A chain of equal convolutions with different weights."""
    function = Function("main")
    builder = Builder(function)
    value = function.add_input("x", TensorType(F32, (1, 8, 6, 6)))
    rng = np.random.default_rng(0)
    for _ in range(count):
        weights = function.constant(rng.standard_normal((8, 8, 3, 3)).astype(np.float32), "w")
        pads = (1, 1, 1, 1)
        value = builder.op("Conv", value, weights, None, strides=(1, 1), dilations=(1, 1), pads=pads)
    function.outputs, function.output_names = [value], ["y"]
    return function


def test_equal_layers_share_a_kernel():
    program = build_program(convolutions(3), Target())
    calls = [i for i in walk(program.body) if isinstance(i, CallKernel)]
    assert len(calls) == 3
    assert len(program.kernels) == 1


def test_progress_counts_kernels_not_nodes():
    function = convolutions(3)
    value = Builder(function).op("Relu", function.outputs[0], label="last")
    function.outputs = [value]
    calls = []
    build_program(function, Target(), progress=lambda *call: calls.append(call))
    assert calls == [(0, 2, function.nodes[0].name), (1, 2, "last")]


def test_storage_pass_packs_weights_at_once_and_pads_by_halo():
    function = convolutions(2)
    assert ChooseStorage(Target()).run(function)
    first, second = (n for n in function.nodes if n.op == "Conv")
    assert first.attrs["padded_by_halo"]
    assert second.attrs["padded_by_halo"]
    assert second.inputs[0].type.storage.halo == ((0, 0), (0, 0), (1, 1), (1, 1))
    assert not any(
        n.op == "Pack" and n.inputs[0].producer is None and n.inputs[0].name == "w" for n in function.nodes
    )
    assert [n.op for n in function.nodes] == ["Pack", "Conv", "Conv", "Unpack"]
    program = build_program(function, Target())
    assert {note["template"] for note in program.notes.values()} == {"contraction", "transposition"}


def test_reshape_of_plain_tensors_is_no_instruction():
    function = Function("main")
    builder = Builder(function)
    x = function.add_input("x", TensorType(F32, (2, 6)))
    y = builder.op("Relu", builder.op("Reshape", x, shape=(3, 4)))
    function.outputs, function.output_names = [y], ["y"]
    program = build_program(function, Target())
    assert [type(i) for i in walk(program.body)] == [CallKernel, Copy]


def test_all_operators_without_lowering_are_named_at_once():
    function = Function("main")
    builder = Builder(function)
    x = function.add_input("x", TensorType(F32, (1, 4, 5, 5)))
    statistics = [function.constant(np.ones(4, np.float32)) for _ in range(4)]
    y = builder.op("BatchNormalization", x, *statistics, label="first")
    z = builder.op("GlobalAveragePool", y, label="second")
    function.outputs, function.output_names = [z], ["z"]
    with pytest.raises(LoweringError, match=r"2 operators: BatchNormalization \(node 'first'\), Global"):
        build_program(function, Target())


def test_single_element_constants_become_literals():
    function = Function("main")
    builder = Builder(function)
    x = function.add_input("x", TensorType(F32, (7,)))
    builder.op("Mul", x, function.constant(np.float32(0.5)))
    group = make_group(function.nodes[0])
    assert len(group.inputs) == 1


@pytest.mark.parametrize("level", [0, 3])
def test_states_of_a_scan_may_change_places(level):
    body = Function("body")
    p = body.add_input("p", TensorType(F32, (2,)))
    q = body.add_input("q", TensorType(F32, (2,)))
    x = body.add_input("x", TensorType(F32, (2,)))
    body.outputs = [Builder(body).op("Add", q, x), p, q]
    body.output_names = ["new_p", "new_q", "seen"]
    function = Function("main")
    p0 = function.add_input("p0", TensorType(F32, (2,)))
    q0 = function.add_input("q0", TensorType(F32, (2,)))
    xs = function.add_input("xs", TensorType(F32, (5, 2)))
    function.outputs = list(scan(Builder(function), body, [p0, q0], [xs], []))
    function.output_names = ["p", "q", "seen"]
    module = Module({"main": function})
    rng = np.random.default_rng(0)
    feeds = {"p0": rng.random(2), "q0": rng.random(2), "xs": rng.random((5, 2))}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    expected = tw.evaluate(module, feeds)
    for name, value in tw.compile(module, opt_level=level, threads=1).run(feeds).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)
