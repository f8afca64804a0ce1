"""`tensorize` marks only loops that compute what the intrinsic declares."""

import numpy as np
import pytest

from tilewright.dtypes import BF16, F32
from tilewright.errors import ScheduleError
from tilewright.expr import cast
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


PAIRS = Storage("Ab2a")


def in_tiles(x_storage=PLAIN, w_storage=PAIRS, step=1, chunk=2):
    """y[8, 16] = x[8, 4] w[4, 16] of bf16 in tiles of `chunk` pairs, with x read every `step` columns."""
    x = placeholder((8, 4 * step), BF16, "x")
    w = placeholder((4, 16), BF16, "w")
    k = reduce_axis(4, "y.r0")
    body = lambda i, j: sum_over(cast(x[i, k.var * step], F32) * cast(w[k, j], F32), k)  # noqa: E731
    y = compute((8, 16), body, "y")
    schedule = Schedule([y])
    outer, inner = schedule.split(y, "y.r0", 2 * chunk)
    p, q = schedule.split(y, inner, 2)
    schedule.reorder(y, outer, "y.i0", "y.i1", p, q)
    schedule.tensorize(y, "y.i0", "dot_tile_pairs")
    return lower_schedule(schedule, [(x, x_storage), (w, w_storage)], [PLAIN])


def test_a_product_of_tiles_and_its_reset_are_marked():
    text = format_kernel(in_tiles())
    assert "tensorized(zero_tile) for y.i0.init in 0 .. +8" in text
    assert "tensorized(dot_tile_pairs) for y.i0 in 0 .. +8" in text


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (lambda: in_tiles(w_storage=PLAIN), "w must be in steps of 2 along 'y.i1', found stride 1"),
        (lambda: in_tiles(w_storage=Storage("Ba2b")), "w does not move with loop 'y.i1'"),
        (
            lambda: in_tiles(x_storage=Storage("ba")),
            "x must be in steps of 2 along 'y.r0.i.o', found stride 16",
        ),
        (lambda: in_tiles(step=2), "x must be in steps of 2 along 'y.r0.i.o', found stride 4"),
    ],
)
def test_operands_of_tiles_lie_as_the_meaning_says(lower, message):
    with pytest.raises(ScheduleError, match=message):
        lower()


def test_sums_of_a_tile_start_outside_of_it():
    x, y = placeholder((8, 4), BF16, "x"), placeholder((4, 16), BF16, "w")
    k = reduce_axis(4, "y.r0")
    z = compute((8, 16), lambda i, j: sum_over(cast(x[i, k], F32) * cast(y[k, j], F32), k), "z")
    schedule = Schedule([z])
    schedule.split(z, "y.r0", 2)
    schedule.tensorize(z, "z.i0", "dot_tile_pairs")
    with pytest.raises(ScheduleError, match="expected a reduce loop around"):
        lower_schedule(schedule, [(x, PLAIN), (y, PAIRS)], [PLAIN])
