"""Interleaved blocks: run contenders in rounds until their ratios are known well enough, or a cap is reached.

One round runs one block of each contender. The order within rounds is random, and every second round runs the
order of the round before it backwards, so no contender profits from its place. A block is: wait until no
other thread runs, one call that is not timed (it wakes parked workers and warms caches), then a few timed
calls. Many short blocks beat few long ones: pairs lie closer together in time, and there are more of them to
resample.
"""

import gc
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright_bench.quiet import wait_until_quiet
from tilewright_bench.statistics import Ratio, median_half_width, paired_ratio, summarise

Call = Callable[[], object]
OnRound = Callable[[int, float], None]  # rounds done, seconds spent


@dataclass(frozen=True)
class Plan:
    """When to stop, and how long a block is. Times in seconds."""

    duration_s: float = 20.0  # cap for each pair of contenders
    half_width: float = 0.02  # of the ratio's interval, relative: stop when reached
    minimum_rounds: int = 20
    block_s: float = 0.02
    minimum_calls: int = 3
    long_call_s: float = 0.05  # longer calls need no untimed call before them, and one call is a block
    seed: int = 0


@dataclass(frozen=True)
class Clock:
    """What the measurement knows of the world; tests put a virtual one in its place."""

    now_s: Callable[[], float] = time.perf_counter
    wait_until_quiet: Callable[[], bool] = wait_until_quiet


@dataclass
class Samples:
    """What one contender did: block by block the milliseconds of each timed call."""

    calls_per_block: int
    blocks_ms: list[list[float]] = field(default_factory=list)

    @property
    def all_ms(self) -> list[float]:
        return [sample for block in self.blocks_ms for sample in block]

    @property
    def block_medians_ms(self) -> list[float]:
        return [summarise(block).median for block in self.blocks_ms]


@dataclass
class Measurement:
    """All samples, and the ratio of every other contender to the first. `noisy_blocks` started while a thread
    ran.
    """

    samples: list[Samples]
    ratios: list[Ratio]
    capped: bool
    interrupted: bool
    noisy_blocks: int

    @property
    def rounds(self) -> int:
        return min(len(samples.blocks_ms) for samples in self.samples)


def measure(
    contenders: Sequence[Call],
    plan: Plan = Plan(),
    clock: Clock = Clock(),
    on_round: OnRound = lambda rounds, seconds: None,
) -> Measurement:
    """Measure contenders (calls without arguments) against the first of them.

    `on_round` hears after each round how many rounds are done and how many seconds were spent. Ctrl-C ends
    the measurement and keeps the complete rounds. Errors of a contender pass through.
    """
    samples = [Samples(_calls_per_block(_warm_up(call, clock), plan)) for call in contenders]
    measurement = Measurement(samples, [], capped=False, interrupted=False, noisy_blocks=0)
    with _no_garbage_collection():
        try:
            _run_rounds(contenders, measurement, plan, clock, on_round)
        except KeyboardInterrupt:
            measurement.interrupted = True
    measurement.ratios = _ratios(samples, measurement.rounds, plan.seed)
    return measurement


def _run_rounds(
    contenders: Sequence[Call], measurement: Measurement, plan: Plan, clock: Clock, on_round: OnRound
) -> None:
    orders = _orders(len(contenders), random.Random(plan.seed))
    cap_s = plan.duration_s * max(1, len(contenders) - 1)
    start = clock.now_s()
    next_look = plan.minimum_rounds
    settled_before = False
    while True:
        done = measurement.rounds
        if done >= next_look:
            settled = _settled(measurement, plan)
            # Narrow twice in a row: stopping at the first narrow interval would pick the ones narrow by luck.
            if settled and settled_before:
                return
            settled_before = settled
            # Looking is a bootstrap of its own: not after every round.
            next_look = done + max(5, done // 8)
        if done and clock.now_s() - start > cap_s:
            measurement.capped = not _settled(measurement, plan)
            return
        _run_round(next(orders), contenders, measurement, plan, clock)
        on_round(done + 1, clock.now_s() - start)


def _run_round(
    order: Sequence[int], contenders: Sequence[Call], measurement: Measurement, plan: Plan, clock: Clock
) -> None:
    """One block of each contender, kept only when the round is complete."""
    blocks: dict[int, list[float]] = {}
    for index in order:
        measurement.noisy_blocks += not clock.wait_until_quiet()
        blocks[index] = _block(contenders[index], measurement.samples[index].calls_per_block, clock)
    for index, block in blocks.items():
        measurement.samples[index].blocks_ms.append(block)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _warm_up(call: Call, clock: Clock) -> float:
    """Seconds of a warm call: the median of at most 20 calls or 0.2 s, after one that is not counted."""
    call()
    clock.wait_until_quiet()
    start = clock.now_s()
    seconds: list[float] = []
    while len(seconds) < 20 and (not seconds or clock.now_s() - start < 0.2):
        seconds.append(_timed(call, clock))
    return summarise(seconds).median


def _calls_per_block(call_s: float, plan: Plan) -> int:
    if call_s >= plan.long_call_s:
        return 1
    return max(plan.minimum_calls, math.ceil(plan.block_s / max(call_s, 1e-6)))


def _block(call: Call, calls: int, clock: Clock) -> list[float]:
    if calls > 1:
        call()
    return [1e3 * _timed(call, clock) for _ in range(calls)]


def _timed(call: Call, clock: Clock) -> float:
    start = clock.now_s()
    call()
    return clock.now_s() - start


def _orders(count: int, chance: random.Random) -> Iterator[list[int]]:
    while True:
        order = list(range(count))
        chance.shuffle(order)
        yield order
        yield order[::-1]


def _settled(measurement: Measurement, plan: Plan) -> bool:
    if measurement.rounds < plan.minimum_rounds:
        return False
    samples = measurement.samples
    if len(samples) == 1:
        return median_half_width(samples[0].block_medians_ms, plan.seed) <= plan.half_width
    ratios = _ratios(samples, measurement.rounds, plan.seed)
    return all(ratio.half_width <= plan.half_width for ratio in ratios)


def _ratios(samples: Sequence[Samples], rounds: int, seed: int) -> list[Ratio]:
    if not rounds:
        return []
    first, *others = ([summarise(block).median for block in one.blocks_ms[:rounds]] for one in samples)
    return [paired_ratio(first, other, seed) for other in others]
