"""`tensorize` marks only loops that compute what the intrinsic declares."""

import numpy as np
import pytest

from tilewright.dtypes import F32
from tilewright.errors import ScheduleError
from tilewright.loops.interpret import interpret
from tilewright.loops.parse import parse_kernel
from tilewright.loops.text import format_kernel
from tilewright.schedule.lower import lower_schedule
from tilewright.schedule.schedule import Schedule
from tilewright.storage import PLAIN, Storage
from tilewright.tensor.ir import compute, placeholder, reduce_axis, sum_over


def turned(storage=PLAIN, body=lambda x: lambda i, j: x[j, i]):
    """A schedule of y[i, j] = x[j, i] in squares of 4, and how to lower it."""
    x = placeholder((12, 8), F32, "x")
    y = compute((8, 12), body(x), "y")
    schedule = Schedule([y])
    io, ii = schedule.split(y, "y.i0", 4)
    jo, ji = schedule.split(y, "y.i1", 4)
    schedule.reorder(y, io, jo, ii, ji)
    schedule.tensorize(y, ii, "transpose")
    return lambda: lower_schedule(schedule, [(x, PLAIN)], [storage])


def test_a_transposition_is_marked_and_keeps_its_meaning():
    kernel = turned()()
    assert "tensorized(transpose) for y.i0.i" in format_kernel(kernel)
    assert parse_kernel(format_kernel(kernel)) == kernel
    x, y = np.arange(96, dtype=np.float32).reshape(12, 8), np.zeros((8, 12), np.float32)
    interpret(kernel, [x, y])
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (turned(body=lambda x: lambda i, j: x[j, i] * 2.0), "computes Binary, expected Read"),
        (turned(storage=Storage("ba")), "y must be contiguous along 'y.i1.i'"),
        (turned(body=lambda x: lambda i, j: x[j, 0]), "x does not move with loop 'y.i0.i'"),
    ],
)
def test_other_loops_are_refused_with_the_reason(lower, message):
    with pytest.raises(ScheduleError, match=message):
        lower()


def test_the_number_and_kind_of_loops_must_fit():
    x = placeholder((4, 4, 4), F32, "x")
    y = compute((4, 4, 4), lambda i, j, k: x[i, k, j], "y")
    schedule = Schedule([y])
    schedule.tensorize(y, "y.i0", "transpose")
    with pytest.raises(ScheduleError, match=r"expected 2 loops from 'y.i0' inwards, found y.i0, y.i1, y.i2"):
        lower_schedule(schedule, [(x, PLAIN)], [PLAIN])
    r = reduce_axis(4, "z.r0")
    z = compute((4, 4), lambda i, j: sum_over(x[j, i, r], r), "z")
    schedule = Schedule([z])
    schedule.tensorize(z, "z.i1", "transpose")
    with pytest.raises(ScheduleError, match="expected data, data loops"):
        lower_schedule(schedule, [(x, PLAIN)], [PLAIN])


def test_an_intrinsic_must_be_declared():
    x = placeholder((4,), F32, "x")
    y = compute((4,), lambda i: x[i], "y")
    with pytest.raises(ScheduleError, match="no intrinsic 'nothing'; declared are transpose"):
        Schedule([y]).tensorize(y, "y.i0", "nothing")
