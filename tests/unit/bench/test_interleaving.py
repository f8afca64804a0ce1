"""Rounds, blocks and stopping, in virtual time."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from virtual_world import VirtualTime

from tilewright_bench.measure import Measurement, Plan, measure


def noisy(mean_s: float, seed: int, spread: float = 0.02) -> Callable[[], float]:
    """Seconds of a call: log-normal, with a slow burst now and then that lasts several calls."""
    chance = random.Random(seed)
    burst = 0

    def seconds() -> float:
        nonlocal burst
        burst = max(burst - 1, 0) or (chance.randrange(5, 40) if chance.random() < 0.005 else 0)
        return mean_s * chance.lognormvariate(0, spread) * (1.4 if burst else 1)

    return seconds


def test_a_round_has_one_block_of_each_and_every_second_order_is_reversed(virtual_time: VirtualTime) -> None:
    order: list[int] = []

    def contender(index: int) -> Callable[[], None]:
        def run() -> None:
            order.append(index)
            virtual_time.now += 0.1  # a long call: one per block, and none untimed before it

        return run

    plan = Plan(minimum_rounds=3, half_width=1.0, duration_s=100)
    measurement = measure([contender(0), contender(1), contender(2)], plan, virtual_time.clock())
    timed = np.reshape(order[-3 * measurement.rounds :], (measurement.rounds, 3))
    assert measurement.rounds == 8
    assert all(sorted(row) == [0, 1, 2] for row in timed.tolist())
    assert [row[::-1] for row in timed[::2].tolist()] == timed[1::2].tolist()


def test_each_block_waits_for_quiet_and_has_one_untimed_call(virtual_time: VirtualTime) -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1
        virtual_time.now += 0.001

    plan = Plan(minimum_rounds=5, half_width=1.0)  # settled at 5, confirmed at 10
    measurement = measure([run], plan, virtual_time.clock())
    samples = measurement.samples[0]
    assert samples.calls_per_block == 20  # of 1 ms in a block of 20 ms
    assert len(samples.all_ms) == 10 * 20
    assert samples.all_ms == pytest.approx([1.0] * 200)
    assert calls == 1 + 20 + 10 * 21  # first call, calibration, rounds with their untimed call
    assert virtual_time.waits == 1 + 10


def test_stops_when_the_interval_is_narrow(virtual_time: VirtualTime) -> None:
    calls = [virtual_time.call(noisy(0.01, seed)) for seed in (1, 2)]
    measurement = measure(calls, Plan(), virtual_time.clock())
    assert not measurement.capped
    assert measurement.ratios[0].half_width <= 0.02


def test_the_cap_is_kept_and_reported(virtual_time: VirtualTime) -> None:
    calls = [virtual_time.call(noisy(0.01, seed, spread=1.0)) for seed in (1, 2)]
    measurement = measure(calls, Plan(duration_s=3), virtual_time.clock())
    assert measurement.capped
    assert virtual_time.now < 4.5  # the cap, the calibration and the round under way


def test_interruption_keeps_whole_rounds(virtual_time: VirtualTime) -> None:
    rounds_wanted = 5

    def on_round(rounds: int, seconds: float) -> None:
        if rounds == rounds_wanted:
            raise KeyboardInterrupt

    calls = [virtual_time.call(lambda: 0.01) for _ in range(2)]
    measurement = measure(calls, Plan(), virtual_time.clock(), on_round)
    assert measurement.interrupted
    assert measurement.rounds == rounds_wanted
    assert measurement.ratios[0].pairs == rounds_wanted


def test_an_error_of_a_contender_passes_through(virtual_time: VirtualTime) -> None:
    def broken() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        measure([broken], Plan(), virtual_time.clock())


@pytest.mark.parametrize("planted", [0.0, 0.05])
def test_five_percent_is_told_from_nothing_in_bursty_noise(planted: float) -> None:
    """What the self-test demands of a real machine, on a simulated one: 18 of 20 right."""
    right = 0
    for seed in range(20):
        measurement = _one_comparison(seed, planted)
        right += measurement.ratios[0].verdict == ("faster" if planted else "no difference")
    assert right >= 18


def _one_comparison(seed: int, planted: float) -> Measurement:
    world = VirtualTime()
    seconds = noisy(0.004, seed)  # one stream of noise: the machine's, not an engine's
    calls = [world.call(seconds), world.call(lambda: seconds() + planted * 0.004)]
    return measure(calls, Plan(seed=seed), world.clock())
