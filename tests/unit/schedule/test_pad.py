"""`pad`: tails without guards, where the operands' memory goes on past the end."""

import re

import numpy as np
import pytest

from tilewright.dtypes import F32
from tilewright.errors import ScheduleError
from tilewright.loops.interpret import interpret
from tilewright.loops.text import format_kernel
from tilewright.schedule.lower import lower_schedule
from tilewright.schedule.schedule import Schedule
from tilewright.storage import PLAIN, Storage
from tilewright.tensor.ir import compute, placeholder, reduce_axis, sum_over

GUARD = re.compile(r"if .*y\.local\.i1")  # on columns of the sums


def product(columns, pad, storage):
    """y = x w in panels of 8 columns, w in that storage: the loops, and what they should compute."""
    x, w = placeholder((3, 5), F32, "x"), placeholder((5, columns), F32, "w")
    k = reduce_axis(5, "y.r0")
    y = compute((3, columns), lambda i, j: sum_over(x[i, k] * w[k, j], k), "y")
    schedule = Schedule([y])
    sums = schedule.cache_write(y, "local")
    panel, within = schedule.split(y, "y.i1", 8)
    schedule.reorder(y, panel, "y.i0", within)
    schedule.compute_at(sums, y, panel)
    if pad:
        schedule.pad(sums, "y.local.i1", pad)
    schedule.split(sums, "y.local.i1", 8)
    return lower_schedule(schedule, [(x, PLAIN), (w, storage)], [PLAIN])


@pytest.mark.parametrize("columns", [3, 8, 13, 24])
def test_sums_past_the_end_come_from_the_last_block(columns):
    storage = Storage("aB8b")
    kernel = product(columns, 8, storage)
    assert not GUARD.search(format_kernel(kernel))
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((3, 5), (5, columns)))
    y = np.zeros((3, columns), np.float32)
    interpret(kernel, [x, storage.pack(w), y])
    np.testing.assert_array_equal(y, x @ w)


@pytest.mark.parametrize(
    ("storage", "pad", "message"),
    [
        (PLAIN, 8, r"'w' would be read at 0.* to 15.*, outside of its 13 elements"),
        (Storage("aB4b"), 32, "outside of its 4 elements"),
    ],
)
def test_memory_must_go_on(storage, pad, message):
    with pytest.raises(ScheduleError, match=message):
        product(13, pad, storage)


@pytest.mark.parametrize(
    ("stage", "axis", "factor", "message"),
    [
        ("y", "y.i0", 4, "'y' is an output"),
        ("t", "t.i1", 4, "expected a data axis of 't' \\(t.i0\\) and a positive factor, found t.i1 and 4"),
        ("t", "t.i0", 0, "found t.i0 and 0"),
    ],
)
def test_what_cannot_be_padded_is_refused(stage, axis, factor, message):
    x = placeholder((6,), F32, "x")
    t = compute((6,), lambda i: x[i] + 1.0, "t")
    schedule = Schedule([compute((6,), lambda i: t[i] * 2.0, "y")])
    with pytest.raises(ScheduleError, match=message):
        schedule.pad(stage, axis, factor)


def test_without_padding_tails_are_cut_off():
    assert GUARD.search(format_kernel(product(13, 0, Storage("aB8b"))))
