"""Any legal schedule computes what the unscheduled expression does, tails included."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.dtypes import F32
from tilewright.errors import ScheduleError
from tilewright.expr import cast, const, maximum, select
from tilewright.loops.interpret import interpret
from tilewright.loops.ir import Kernel
from tilewright.loops.parse import parse_kernel
from tilewright.loops.text import format_kernel
from tilewright.lower.kernel import finish_kernel
from tilewright.schedule.lower import lower_schedule
from tilewright.schedule.schedule import Schedule, parse_steps
from tilewright.storage import PLAIN, Storage
from tilewright.tensor.evaluate import evaluate_tensors
from tilewright.tensor.ir import Tensor, compute, max_over, placeholder, reduce_axis, sum_over

ZERO = const(0, F32)


def matmul(m: int, n: int, k: int) -> tuple[list[Tensor], Tensor]:
    a, b = placeholder((m, k), F32, "a"), placeholder((k, n), F32, "b")
    r = reduce_axis(k, "c.r0")
    c = compute((m, n), lambda i, j: sum_over(a[i, r] * b[r, j], r), "c")
    d = compute((m, n), lambda i, j: maximum(c[i, j] + 1.0, ZERO), "d")
    return [a, b], d


def convolution(m: int, n: int, k: int) -> tuple[list[Tensor], Tensor]:
    x, w = placeholder((m, n + 2), F32, "x"), placeholder((k, 3), F32, "w")
    c, t = reduce_axis(m, "y.r0"), reduce_axis(3, "y.r1")
    p = compute((m, n + 2), lambda i, j: x[i, j] * 2.0, "p")
    y = compute((k, n), lambda o, j: sum_over(p[c, j + t.var] * w[o, t], c, t), "y")
    z = compute((k, n), lambda o, j: y[o, j] - 1.0, "z")
    return [x, w], z


def normalise(m: int, n: int, k: int) -> tuple[list[Tensor], Tensor]:
    x = placeholder((m, n), F32, "x")
    r = reduce_axis(n, "top.r0")
    top = compute((m,), lambda i: max_over(x[i, r], r), "top")
    less = compute((m, n), lambda i, j: x[i, j] - top[i], "less")
    last = compute((m, n), lambda i, j: select(j < const(k), less[i, j], cast(const(1.0, F32), F32)), "last")
    return [x], last


BUILDERS = (matmul, convolution, normalise)


def apply_random(schedule: Schedule, rng: random.Random, steps: int) -> None:
    """Try random primitives; those that are not legal where they fall are skipped."""
    for _ in range(steps):
        stages = list(schedule.state.stages)
        stage = rng.choice(stages)
        axes = schedule.axes(stage)
        axis, other = rng.choice(axes), rng.choice(axes)
        consumers = [s.name for s in schedule.state.consumers(stage)]
        choice = rng.randrange(13)
        try:
            if choice <= 1:
                schedule.split(stage, axis, rng.randint(1, 7))
            elif choice == 2:
                schedule.fuse(stage, axis, other)
            elif choice == 3:
                schedule.reorder(stage, *rng.sample(axes, len(axes)))
            elif choice == 4:
                schedule.unroll(stage, axis)
            elif choice == 5:
                schedule.vectorize(stage, axes[-1])
            elif choice == 6:
                schedule.parallel(stage, axis)
            elif choice == 7 and consumers:
                consumer = rng.choice(consumers)
                schedule.compute_at(stage, consumer, rng.choice(schedule.axes(consumer)))
            elif choice == 8:
                schedule.compute_inline(stage)
            elif choice == 9:
                reduced = [a.name for a in schedule.state.stages[stage].stage.reduce_axes] or axes
                schedule.rfactor(
                    stage,
                    rng.sample(reduced[1:], rng.randint(0, len(reduced) - 1)),
                    reduced[0],
                    rng.randint(1, 5),
                )
            elif choice == 10:
                schedule.pad(stage, axis, rng.randint(1, 5))
            elif choice == 11:
                schedule.overlap(stage, axis, rng.randint(1, 5))
            elif rng.random() < 0.5:
                schedule.cache_write(stage, "local")
            else:
                schedule.cache_read(rng.choice(list(schedule.state.placeholders)), "local", [stage])
        except ScheduleError:
            continue


def flatten_random(schedule: Schedule, rng: random.Random) -> None:
    """As the first primitive of some stages, where it is legal."""
    for name, state in schedule.state.stages.items():
        axes = state.stage.axes
        if name not in schedule.state.outputs and len(axes) > 1 and rng.random() < 0.3:
            schedule.flatten(name, axes[0].name, axes[1].name, axes[1].extent + rng.randint(0, 2))


def run(kernel: Kernel, arrays: list[np.ndarray], shape: tuple[int, ...], storage: Storage) -> np.ndarray:
    result = np.full(storage.physical_shape(shape), np.nan, np.float32)
    interpret(kernel, [*arrays, result])
    plain = storage.unpack(result, shape)
    if storage.has_halo:
        np.testing.assert_array_equal(result, storage.pack(plain))
    return plain


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    builder=st.sampled_from(BUILDERS),
    sizes=st.tuples(*[st.integers(1, 9)] * 3),
    seed=st.integers(0, 2**32),
    steps=st.integers(0, 14),
    storage=st.sampled_from([PLAIN, Storage("ba"), Storage("Ba4b"), Storage("ab", ((1, 0), (2, 1)), 5)]),
)
def test_scheduled_equals_unscheduled(builder, sizes, seed, steps, storage):
    inputs, output = builder(*sizes)
    rng = np.random.default_rng(seed)
    feeds = {t.name: rng.integers(-4, 5, t.shape).astype(np.float32) for t in inputs}
    (expected,) = evaluate_tensors([output], feeds)
    schedule, choices = Schedule([output]), random.Random(seed)
    flatten_random(schedule, choices)
    apply_random(schedule, choices, steps)
    text = str(schedule)
    assert parse_steps(text) == schedule.steps
    try:
        kernel = lower_schedule(schedule, [(t, PLAIN) for t in inputs], [storage])
    except ScheduleError:
        return  # the place of a stage was not legal in the end
    arrays = [feeds[t.name] for t in inputs]
    np.testing.assert_array_equal(run(kernel, arrays, output.shape, storage), expected, err_msg=text)
    finished = finish_kernel(kernel)
    np.testing.assert_array_equal(run(finished, arrays, output.shape, storage), expected, err_msg=text)
    assert parse_kernel(format_kernel(finished)) == finished


def test_replaying_the_text_gives_the_same_kernel():
    inputs, output = matmul(13, 21, 5)
    schedule = Schedule([output])
    apply_random(schedule, random.Random(11), 20)
    again = Schedule([output], parse_steps(str(schedule)))
    places = [(t, PLAIN) for t in inputs]
    first, second = lower_schedule(schedule, places, [PLAIN]), lower_schedule(again, places, [PLAIN])
    assert format_kernel(first) == format_kernel(second)


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda s: s.split("d", "d.i9", 4), "has no loop 'd.i9'"),
        (lambda s: s.split("d", "d.i0", 0), "factor must be positive"),
        (lambda s: s.vectorize("c", "c.r0"), "reduce axis"),
        (lambda s: s.parallel("c", "c.r0"), "race"),
        (lambda s: s.fuse("d", "d.i1", "d.i0"), "must stand directly inside"),
        (lambda s: s.fuse("c", "c.i1", "c.r0"), "both be data or both be reduce"),
        (lambda s: s.compute_inline("d"), "is an output"),
        (lambda s: s.compute_inline("c"), "reduces"),
        (lambda s: s.compute_at("d", "c", "c.i0"), "is an output"),
        (lambda s: s.set_scope("nothing", "register"), "there is no stage 'nothing'"),
        (lambda s: s.cache_read("a", "shared", ["d"]), "does not read"),
        (lambda s: (s.unroll("d", "d.i1"), s.split("d", "d.i1", 2)), "is unrolled already"),
        (lambda s: s.reorder("d", "d.i0", "d.i0"), "named twice"),
    ],
)
def test_illegal_primitives_say_why(apply, message):
    _, output = matmul(4, 4, 4)
    with pytest.raises(ScheduleError, match=message):
        apply(Schedule([output]))
