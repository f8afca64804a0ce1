"""The instruction passes keep what a program computes, and do what they are for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from program_machine import (
    TRIPS,
    Machine,
    call,
    program,
    programs,
    row,
    rows,
    sample_inputs,
    source,
    target,
)

from tilewright.loops.ir import Role
from tilewright.program.ir import Alloc, CallKernel, Copy, Dealloc, Loop, Operand, Space, walk
from tilewright.program.passes.copies import CopyElimination
from tilewright.program.passes.dead_stores import DeadStores
from tilewright.program.passes.lifetimes import Lifetimes
from tilewright.program.passes.sharing import BufferSharing
from tilewright.program.passes.slices import SliceForwarding
from tilewright.program.planner import plan
from tilewright.program.verify import verify_program

ALL = (DeadStores(), SliceForwarding(), CopyElimination(), BufferSharing(), Lifetimes())


def _equal(before, after):
    assert before.keys() == after.keys()
    for name, expected in before.items():
        np.testing.assert_array_equal(after[name], expected)


@settings(max_examples=150, deadline=None)
@given(programs())
def test_all_passes_keep_the_results_in_planned_memory(made):
    verify_program(made)
    optimised = made
    for step in ALL:
        optimised = step(optimised)
        verify_program(optimised)
    placed = plan(optimised)
    for flag, limit, go in ((0.0, TRIPS, True), (1.0, 2, True), (1.0, 0, True), (0.0, TRIPS, False)):
        inputs = sample_inputs(flag, limit, go)
        _equal(Machine(made).run(inputs), Machine(optimised, placed).run(inputs))


@pytest.mark.parametrize("step", ALL, ids=lambda step: step.name)
@settings(max_examples=40, deadline=None)
@given(made=programs())
def test_each_pass_alone_keeps_the_results(step, made):
    changed = step(made)
    verify_program(changed)
    _equal(Machine(made).run(sample_inputs(1.0)), Machine(changed).run(sample_inputs(1.0)))


def test_dead_stores_follow_chains():
    x, y = row("x", Space.MUTABLE), row("y", Space.MUTABLE)
    a, b = row("a"), row("b")
    made = program([call("bump", x, a), call("bump", a, b), call("flip", x, y)], [x], [y])
    cleaned = DeadStores()(made)
    assert [i.kernel for i in cleaned.body] == ["flip"]
    assert list(cleaned.kernels) == ["flip"]


def test_a_copy_into_an_output_is_written_by_the_producer():
    x, y, a = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("a")
    made = program([call("flip", x, a), Copy(target(y), source(a))], [x], [y])
    assert CopyElimination()(made).body == (call("flip", x, y),)


def test_an_input_that_is_an_output_stays_a_copy():
    x, y = row("x", Space.MUTABLE), row("y", Space.MUTABLE)
    made = program([Copy(target(y), source(x))], [x], [y])
    assert CopyElimination()(made).body == made.body


def test_a_copy_of_an_input_that_is_changed_later_stays():
    x, y, a = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("a")
    body = [Copy(target(a), source(x)), Loop("t", 2, (call("flip", a, y), call("bump", y, a)))]
    made = program(body, [x], [y])
    assert any(isinstance(i, Copy) for i in CopyElimination()(made).body)


def test_state_of_a_loop_needs_no_copy_where_the_kernel_works_in_place():
    x, y, h, n = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("h"), row("n")
    turn = (call("bump", h, n), Copy(target(h), source(n)))
    made = program([Copy(target(h), source(x)), Loop("t", TRIPS, turn), Copy(target(y), source(h))], [x], [y])
    result = CopyElimination()(made)
    assert result.body == (Copy(target(y), source(x)), Loop("t", TRIPS, (call("bump", y, y),)))


def test_state_of_a_loop_keeps_its_copy_where_the_kernel_does_not():
    x, y, h, n = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("h"), row("n")
    turn = (call("flip", h, n), Copy(target(h), source(n)))
    made = program([Copy(target(h), source(x)), Loop("t", TRIPS, turn), Copy(target(y), source(h))], [x], [y])
    loop = CopyElimination()(made).body[1]
    assert [type(i) for i in loop.body] == [CallKernel, Copy]


def test_slices_are_used_where_they_lie():
    xs, ys = rows("xs", Space.MUTABLE), rows("ys", Space.MUTABLE)
    a, b = row("a"), row("b")
    turn = (Copy(target(a), source(xs, "t")), call("flip", a, b), Copy(target(ys, "t"), source(b)))
    made = program([Loop("t", TRIPS, turn)], [xs], [ys])
    assert SliceForwarding()(made).body == (Loop("t", TRIPS, (call("flip", (xs, "t"), (ys, "t")),)),)


def test_a_kernel_works_in_place_when_its_operand_dies():
    x, y, a, b = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("a"), row("b")
    made = program([call("flip", x, a), call("bump", a, b), call("flip", b, y)], [x], [y])
    shared = BufferSharing()(made)
    assert shared.body == (call("flip", x, a), call("bump", a, a), call("flip", a, y)) or shared.body == (
        call("flip", x, b),
        call("bump", b, b),
        call("flip", b, y),
    )


def test_a_kernel_does_not_overwrite_an_operand_that_is_read_later():
    x, y, a, b = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("a"), row("b")
    made = program([call("flip", x, a), call("bump", a, b), call("mixed", b, a, y)], [x], [y])
    first, second, _ = BufferSharing()(made).body
    assert first.args[1].memory != second.args[1].memory


def test_lifetimes_are_as_short_as_possible_and_loops_keep_their_state():
    x, y, h, n = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("h"), row("n")
    turn = (call("flip", h, n), call("flip", n, h))
    made = program([call("bump", x, h), Loop("t", TRIPS, turn), call("bump", h, y)], [x], [y])
    placed = Lifetimes()(made)
    assert placed.body == (
        Alloc(h),
        call("bump", x, h),
        Loop("t", TRIPS, (Alloc(n), call("flip", h, n), call("flip", n, h), Dealloc(n))),
        call("bump", h, y),
        Dealloc(h),
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([call("bump", row("a"), row("x", Space.MUTABLE))], "read-only"),
        ([call("nothing", row("a"), row("b"))], "no such kernel"),
        ([call("bump", row("a"), rows("b"))], "48 bytes"),
        ([call("bump", row("a"), (rows("b"), "t"))], "no loop around it"),
        ([Loop("t", 9, (call("bump", row("a"), (rows("b"), "t")),))], "shorter than"),
        ([Copy(target(row("a")), source(rows("b")))], "sizes differ"),
        ([CallKernel("bump", (source(row("a")), source(row("b"))))], "@in"),
        ([CallKernel("bump", (source(row("a")),))], "1 operands"),
        ([Alloc(row("a")), call("bump", row("a"), row("b")), Dealloc(row("a"))], "not alive"),
        ([Alloc(row("a"))], "never deallocated"),
        ([call("bump", row("a"), row("a", Space.MUTABLE))], "two buffers"),
    ],
)
def test_the_verifier_names_what_is_wrong(body, message):
    x = row("x", Space.MUTABLE)
    with pytest.raises(Exception, match=message):
        verify_program(program(body, [x], []))


def test_operands_keep_their_mode_when_buffers_are_shared():
    x, y, a = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("a")
    made = program([call("flip", x, a), call("bump", a, y)], [x], [y])
    modes = [o.mode for i in walk(BufferSharing()(made).body) for o in i.operands()]
    assert modes == [Role.IN, Role.OUT, Role.IN, Role.OUT]
    assert replace(Operand(a, Role.IN), mode=Role.OUT) == target(a)


def test_a_slice_that_the_loop_overwrites_is_copied_first():
    xs, ys = rows("xs", Space.MUTABLE), rows("ys", Space.MUTABLE)
    a, b = row("a"), rows("b")
    turn = (Copy(target(a), source(b, "t")), call("flip", a, (b, "t")), call("bump", a, (ys, "t")))
    made = program([Copy(target(b), source(xs)), Loop("t", TRIPS, turn)], [xs], [ys])
    assert SliceForwarding()(made).body == made.body
