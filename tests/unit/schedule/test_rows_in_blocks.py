"""`overlap` and `flatten`: blocks of rows that are always whole."""

import re

import numpy as np
import pytest

from tilewright.dtypes import F32
from tilewright.errors import ScheduleError
from tilewright.loops.interpret import interpret
from tilewright.loops.parse import parse_kernel
from tilewright.loops.text import format_kernel
from tilewright.lower.kernel import finish_kernel
from tilewright.schedule.lower import lower_schedule
from tilewright.schedule.schedule import Schedule, parse_steps
from tilewright.storage import PLAIN, Storage
from tilewright.tensor.ir import compute, placeholder, reduce_axis, sum_over


def convolution(height, width, stride, taps):
    """z = 2 y, y the sums of windows of taps x taps, 1 or 3, with padding that a storage has to hold."""
    x = placeholder((2, 2, stride * height, stride * width), F32, "x")
    c, a, b = (reduce_axis(n, f"y.r{i}") for i, n in enumerate((2, taps, taps)))
    before = taps // 2

    def window(n, i, j):
        row, column = i * stride + a.var - before, j * stride + b.var - before
        return sum_over(x[n, c.var, row, column], c, a, b)

    y = compute((2, height, width), window, "y")
    return x, y, compute((2, height, width), lambda n, i, j: y[n, i, j] * 2.0, "z")


def windows(x, stride, taps):
    """What it should compute."""
    before = taps // 2
    image = np.pad(x, [(0, 0), (0, 0), (before, before), (before, before)])
    over = np.lib.stride_tricks.sliding_window_view(image, (taps, taps), (2, 3))
    return 2 * over[:, :, ::stride, ::stride].sum(axis=(1, 4, 5))


def scheduled(y, z, pitch, chunk, block):
    """Rows of `chunk` rows of the image as one axis, in blocks; y is computed block by block."""
    schedule = Schedule([z])
    flat = schedule.flatten(y, "y.i1", "y.i2", pitch)
    rows, _ = schedule.split(z, "z.i1", chunk)
    staged = schedule.cache_read(y, "local", [z])
    schedule.compute_at(staged, z, rows)
    outer, _ = schedule.overlap(staged, f"{staged}.i2", block)
    schedule.compute_at(y, staged, outer)
    schedule.split(y, flat, block)
    return schedule


@pytest.mark.parametrize(
    ("height", "width", "stride", "taps", "right", "chunk", "block"),
    [
        (7, 7, 1, 3, 1, 7, 16),
        (6, 5, 1, 3, 1, 2, 4),
        (6, 5, 1, 3, 3, 3, 25),  # a wide border; one block
        (3, 3, 2, 3, 1, 3, 8),
        (4, 3, 2, 1, 0, 2, 5),
        (4, 2, 1, 1, 0, 4, 3),  # nothing between rows
    ],
)
def test_windows_of_rows_that_follow_each_other(height, width, stride, taps, right, chunk, block):
    x, y, z = convolution(height, width, stride, taps)
    before = taps // 2
    storage = Storage("acdb", ((0, 0), (0, 0), (before, before), (before, right)))
    schedule = scheduled(y, z, stride * width + before + right, chunk, block)
    assert parse_steps(str(schedule)) == schedule.steps
    kernel = lower_schedule(schedule, [(x, storage)], [PLAIN])
    finished = finish_kernel(kernel)
    text = format_kernel(finished)
    assert parse_kernel(text) == finished
    assert " if " not in text
    data = np.random.default_rng(0).integers(-4, 5, x.shape).astype(np.float32)
    for version in (kernel, finished):
        found = np.full(z.shape, np.nan, np.float32)
        interpret(version, [storage.pack(data), found])  # raises where another buffer would be read
        np.testing.assert_array_equal(found, windows(data, stride, taps))


@pytest.mark.parametrize(
    ("pitch", "halo", "message"),
    [
        (11, 1, "'x' would be read at 0 to 2, outside of its 2 elements"),  # past the last image
        (9, 0, "'x' would be read at -1 to"),  # in front of the first
    ],
)
def test_memory_must_be_that_of_the_operand(pitch, halo, message):
    x, y, z = convolution(7, 7, 1, 3)
    storage = Storage("acdb", ((0, 0), (0, 0), (halo, 1), (halo, 1)))
    with pytest.raises(ScheduleError, match=message):
        lower_schedule(scheduled(y, z, pitch, 7, 16), [(x, storage)], [PLAIN])


def test_blocks_overlap_where_they_do_not_divide():
    x = placeholder((10,), F32, "x")
    y = compute((10,), lambda i: x[i] + 1.0, "y")
    schedule = Schedule([compute((10,), lambda i: y[i] * 2.0, "z")])
    schedule.overlap(y, "y.i0", 4)
    text = format_kernel(lower_schedule(schedule, [(x, PLAIN)], [PLAIN]))
    assert "serial for y.i0.o in 0 .. +3" in text
    assert re.search(r"y\[\(min\(\(y\.i0\.o \* 4\), 6\) \+ y\.i0\.i\)\]", text), text


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda s: s.overlap("z", "z.i1", 4), "must be a data axis of a stage that is no output"),
        (lambda s: s.overlap("y", "y.r0", 4), "must be a data axis of a stage that is no output"),
        (lambda s: s.overlap("y", "y.i0", 0), "factor must be positive"),
        (lambda s: s.flatten("z", "z.i1", "z.i2", 9), "'z' is an output, which has no room"),
        (lambda s: s.flatten("y", "y.i2", "y.i1", 9), "expected two neighbouring data axes of 'y'"),
        (lambda s: s.flatten("y", "y.i0", "y.i2", 9), "expected two neighbouring data axes of 'y'"),
        (lambda s: s.flatten("y", "y.i1", "y.i2", 6), "a pitch that holds a row, found y.i1, y.i2 and 6"),
        (lambda s: [s.split("y", "y.i1", 2), s.flatten("y", "y.i1", "y.i2", 9)], "must come before"),
    ],
)
def test_what_is_not_legal_is_refused(apply, message):
    _, _, z = convolution(7, 7, 1, 3)
    with pytest.raises(ScheduleError, match=message):
        apply(Schedule([z]))


def test_blocks_inside_of_a_reduce_loop_must_not_overlap():
    """The sums would begin before all blocks, and grow in two of them."""
    for size, overlaps in ((7, True), (6, False)):
        x = placeholder((3, size), F32, "x")
        r = reduce_axis(3, "y.r0")
        y = compute((size,), lambda i, x=x, r=r: sum_over(x[r.var, i], r), "y")
        schedule = Schedule([compute((size,), lambda i, y=y: y[i] * 2.0, "z")])
        block, within = schedule.overlap(y, "y.i0", 2)
        schedule.split(y, block, 2)
        schedule.reorder(y, "y.r0", f"{block}.o", f"{block}.i", within)
        if overlaps:
            with pytest.raises(ScheduleError, match=r"'y.i0.o.o' of 'y' is inside of a reduce loop"):
                lower_schedule(schedule, [(x, PLAIN)], [PLAIN])
        else:
            lower_schedule(schedule, [(x, PLAIN)], [PLAIN])


@pytest.mark.parametrize(
    "share", [lambda s, block: s.parallel("y", block), lambda s, block: s.bind("y", block, "global.0")]
)
def test_threads_do_not_share_sums_of_blocks_that_overlap(share):
    """Two threads would add to the same elements."""
    for size, overlaps in ((7, True), (6, False)):
        x = placeholder((3, size), F32, "x")
        r = reduce_axis(3, "y.r0")
        y = compute((size,), lambda i, x=x, r=r: sum_over(x[r.var, i], r), "y")
        schedule = Schedule([compute((size,), lambda i, y=y: y[i] * 2.0, "z")])
        share(schedule, schedule.overlap(y, "y.i0", 2)[0])
        if overlaps:
            with pytest.raises(ScheduleError, match=r"'y.i0.o' of 'y' is shared by threads"):
                lower_schedule(schedule, [(x, PLAIN)], [PLAIN])
        else:
            lower_schedule(schedule, [(x, PLAIN)], [PLAIN])


def test_partial_sums_of_flattened_rows_read_the_same_memory():
    x, y, z = convolution(5, 4, 1, 3)
    storage = Storage("acdb", ((0, 0), (0, 0), (1, 1), (1, 1)))
    schedule = Schedule([z])
    schedule.flatten(y, "y.i1", "y.i2", 6)
    schedule.rfactor(y, ["y.r0"], "y.r1", 1)
    schedule.cache_write("y", "register")
    data = np.random.default_rng(0).integers(-4, 5, x.shape).astype(np.float32)
    found = np.full(z.shape, np.nan, np.float32)
    interpret(lower_schedule(schedule, [(x, storage)], [PLAIN]), [storage.pack(data), found])
    np.testing.assert_array_equal(found, windows(data, 1, 3))
