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
from dataclasses import dataclass, field

from tilewright_bench.quiet import wait_until_quiet
from tilewright_bench.statistics import Ratio, median_half_width, paired_ratio, summarise

Call = Callable[[], object]


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
    on_round: Callable[[int, float], None] = lambda rounds, seconds: None,
) -> Measurement:
    """Measure contenders (calls without arguments) against the first of them.

    `on_round` hears after each round how many rounds are done and how many seconds were spent. Ctrl-C ends
    the measurement and keeps the complete rounds. Errors of a contender pass through.
    """
    samples = [Samples(_calls_per_block(_warm_up(call, clock), plan)) for call in contenders]
    orders = _orders(len(contenders), random.Random(plan.seed))
    cap_s = plan.duration_s * max(1, len(contenders) - 1)
    start = clock.now_s()
    noisy = 0
    capped = interrupted = False
    next_look = plan.minimum_rounds
    collecting = gc.isenabled()
    gc.disable()
    try:
        while True:
            done = len(samples[-1].blocks_ms)
            if done >= next_look:
                if _settled(samples, plan):
                    break
                next_look = done + max(5, done // 8)
            if done and clock.now_s() - start > cap_s:
                capped = not _settled(samples, plan)
                break
            round_ms: dict[int, list[float]] = {}
            for index in next(orders):
                noisy += not clock.wait_until_quiet()
                round_ms[index] = _block(contenders[index], samples[index].calls_per_block, plan, clock)
            for index, block in round_ms.items():
                samples[index].blocks_ms.append(block)
            on_round(done + 1, clock.now_s() - start)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if collecting:
            gc.enable()
    return Measurement(samples, _ratios(samples, plan.seed), capped, interrupted, noisy)


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


def _block(call: Call, calls: int, plan: Plan, clock: Clock) -> list[float]:
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


def _settled(samples: Sequence[Samples], plan: Plan) -> bool:
    if len(samples[0].blocks_ms) < plan.minimum_rounds:
        return False
    if len(samples) == 1:
        return median_half_width(samples[0].block_medians_ms, plan.seed) <= plan.half_width
    return all(ratio.half_width <= plan.half_width for ratio in _ratios(samples, plan.seed))


def _ratios(samples: Sequence[Samples], seed: int) -> list[Ratio]:
    if not samples[0].blocks_ms:
        return []
    first = samples[0].block_medians_ms
    return [paired_ratio(first, other.block_medians_ms, seed) for other in samples[1:]]
