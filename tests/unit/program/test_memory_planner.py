"""The static plan: nothing that lives at one time overlaps, and little memory is lost."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_machine import TRIPS, call, program, row, rows

from tilewright.program.ir import Alloc, Dealloc, Loop, Space
from tilewright.program.passes.lifetimes import Lifetimes
from tilewright.program.planner import (
    ALIGNMENT,
    Interval,
    aligned,
    arena_bytes,
    lower_bound,
    place,
    plan,
)

TRACES = Path(__file__).parents[4] / "shared/data/glow/MemoryAllocatorTestModels.txt"


@st.composite
def interval_lists(draw):
    count = draw(st.integers(0, 30))
    found = []
    for number in range(count):
        start, size = draw(st.integers(0, 40)), draw(st.integers(1, 2000))
        found.append(Interval(f"m{number}", aligned(size), start, start + draw(st.integers(1, 20))))
    return found


@settings(max_examples=200, deadline=None)
@given(interval_lists())
def test_buffers_alive_at_one_time_do_not_overlap(intervals):
    offsets = place(intervals)
    assert offsets.keys() == {i.name for i in intervals}
    for at, one in enumerate(intervals):
        assert offsets[one.name] % ALIGNMENT == 0
        assert offsets[one.name] >= 0
        for other in intervals[at + 1 :]:
            if one.start < other.end and other.start < one.end:
                first, second = offsets[one.name], offsets[other.name]
                assert first + one.bytes <= second or second + other.bytes <= first
    assert lower_bound(intervals) <= arena_bytes(intervals, offsets) <= sum(i.bytes for i in intervals)


def test_what_lives_around_a_loop_is_not_reused_in_it():
    x, y, h, n = row("x", Space.MUTABLE), row("y", Space.MUTABLE), row("h"), row("n")
    turn = (call("flip", h, n), call("flip", n, h))
    made = program([call("bump", x, h), Loop("t", TRIPS, turn), call("bump", h, y)], [x], [y])
    placed = plan(Lifetimes()(made))
    assert {placed.offsets["h"], placed.offsets["n"]} == {0, ALIGNMENT}
    assert placed.arena_bytes == placed.lower_bound == placed.sum_bytes == 2 * ALIGNMENT
    assert placed.mutable_bytes == 2 * ALIGNMENT


def test_regions_are_laid_out_one_after_the_other():
    x, y = rows("x", Space.MUTABLE), row("y", Space.MUTABLE)
    placed = plan(program([], [x], [y]))
    assert placed.offsets == {"x": 0, "y": ALIGNMENT}
    assert placed.arena_bytes == placed.sum_bytes == 0


def test_a_buffer_that_is_never_freed_is_refused():
    with pytest.raises(Exception, match="never deallocated"):
        plan(program([Alloc(row("a"))]))
    with pytest.raises(Exception, match="was not allocated"):
        plan(program([Dealloc(row("a"))]))


def _traces():
    """(model, intervals, Glow's bytes) of recorded allocations of real models."""
    name, begun, intervals = "", {}, []
    for time, line in enumerate(TRACES.read_text().splitlines()):
        word, *rest = line.split() or ["#"]
        if word == "MODEL":
            name, begun, intervals = rest[0], {}, []
        elif word == "ALLOC":
            begun[rest[0]] = (time, aligned(int(rest[1])))
        elif word == "FREE":
            start, size = begun.pop(rest[0])
            intervals.append(Interval(rest[0], size, start, time))
        elif word == "MEM":
            yield name, intervals, int(rest[0])


@pytest.mark.skipif(not TRACES.exists(), reason=f"the recorded allocations {TRACES} are not here")
def test_recorded_models_need_no_more_than_glow_gave_them():
    checked = 0
    for name, intervals, glow in _traces():
        needed = arena_bytes(intervals, place(intervals))
        assert needed <= glow, name
        checked += 1
    assert checked == 79
