"""Summaries of samples, and the paired comparison with its bootstrap interval.

A comparison is made of rounds: in each, every engine runs one block. The ratio of two engines is the median
over rounds of (block median of b / block median of a). Blocks of a round lie within a fraction of a second of
one another, so a slow minute of the machine moves both and cancels; that is why the resampling unit is the
round, never a sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.99
RESAMPLES = 2000

# Two loads of one engine differ by up to about this much (placement of its buffers in memory): no verdict
# below it.
MINIMUM_EFFECT = 0.01

# From n pairs the widest interval for a median, [smallest, largest], covers it with 1 - 2 * 0.5**n: 99 %
# needs 8.
MINIMUM_PAIRS = 8

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Summary:
    """Median and the 10th and 90th percentile, in the unit of the samples."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True)
class Ratio:
    """The paired ratio b/a with its interval; above 1: a is faster. `pairs` is how many block pairs it rests
    on.
    """

    value: float
    low: float
    high: float
    pairs: int

    def scaled(self, factor: float) -> "Ratio":
        """The ratio of samples that stand for another number of runs."""
        return Ratio(self.value * factor, self.low * factor, self.high * factor, self.pairs)

    @property
    def half_width(self) -> float:
        """Half the width of the interval, as a fraction of the ratio."""
        return (self.high - self.low) / 2 / self.value

    @property
    def verdict(self) -> str:
        """What the interval says about a: 'faster', 'slower' or 'no difference'."""
        if self.pairs < MINIMUM_PAIRS or abs(self.value - 1) < MINIMUM_EFFECT:
            return "no difference"
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "no difference"


def summarise(samples: Sequence[float]) -> Summary:
    """Median, p10 and p90 of at least one sample."""
    p10, median, p90 = np.percentile(np.asarray(samples, dtype=np.float64), (10, 50, 90))
    return Summary(float(median), float(p10), float(p90))


def bootstrap_median(values: Sequence[float], seed: int) -> tuple[float, float, float]:
    """Median of values [n] and its percentile bootstrap interval: (median, low, high). The seed fixes it."""
    data: Floats = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(data), size=(RESAMPLES, len(data)))
    medians = np.median(data[picks], axis=1)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(medians, (tail, 100 - tail))
    return float(np.median(data)), float(low), float(high)


def paired_ratio(a_blocks: Sequence[float], b_blocks: Sequence[float], seed: int = 0) -> Ratio:
    """The ratio b/a over block medians [n], [n] of the same n rounds, with its interval. Needs at least one
    round.
    """
    if len(a_blocks) != len(b_blocks) or not a_blocks:
        raise ValueError(f"paired blocks expected, got {len(a_blocks)} and {len(b_blocks)}")
    ratios = np.asarray(b_blocks, dtype=np.float64) / np.asarray(a_blocks, dtype=np.float64)
    value, low, high = bootstrap_median(ratios.tolist(), seed)
    if len(ratios) < MINIMUM_PAIRS:
        low, high = float(ratios.min()), float(ratios.max())
    return Ratio(value, low, high, len(ratios))


def median_half_width(blocks: Sequence[float], seed: int = 0) -> float:
    """Half the width of the interval of one engine's median, as a fraction of it: the stopping rule without a
    pair.
    """
    value, low, high = bootstrap_median(blocks, seed)
    return (high - low) / 2 / value
