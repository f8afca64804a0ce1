"""Summaries and the paired ratio: values by hand, and the interval's coverage on noise of a known kind."""

import numpy as np
import pytest

from tilewright_bench.statistics import MINIMUM_PAIRS, Ratio, bootstrap_median, paired_ratio, summarise


def test_summary_is_median_and_tenth_percentiles() -> None:
    summary = summarise([float(value) for value in range(11)])
    assert (summary.median, summary.p10, summary.p90) == (5.0, 1.0, 9.0)


def test_ratio_is_the_median_of_paired_ratios_not_the_ratio_of_medians() -> None:
    # The machine was twice as slow in half of the rounds: pairs see the same 1.1 throughout.
    speed = np.array([1.0, 2.0] * 10)
    ratio = paired_ratio((3 * speed).tolist(), (3.3 * speed).tolist())
    assert ratio.value == pytest.approx(1.1)
    assert ratio.low == pytest.approx(1.1)
    assert ratio.high == pytest.approx(1.1)
    assert ratio.verdict == "faster"


def test_the_seed_fixes_the_interval() -> None:
    values = np.random.default_rng(3).normal(1, 0.1, 40).tolist()
    assert bootstrap_median(values, 7) == bootstrap_median(values, 7)
    assert bootstrap_median(values, 7) != bootstrap_median(values, 8)


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (1.05, 1.03, 1.07, "faster"),
        (0.95, 0.93, 0.97, "slower"),
        (1.05, 0.99, 1.11, "no difference"),
        (1.005, 1.002, 1.008, "no difference"),  # real perhaps, but below the least effect
    ],
)
def test_verdict(value: float, low: float, high: float, verdict: str) -> None:
    assert Ratio(value, low, high, pairs=30).verdict == verdict


def test_too_few_pairs_give_no_verdict_and_the_whole_range() -> None:
    few = [1.0 + index / 100 for index in range(MINIMUM_PAIRS - 1)]
    ratio = paired_ratio([1.0] * len(few), [2 * value for value in few])
    assert (ratio.low, ratio.high) == (2.0, 2 * few[-1])
    assert ratio.verdict == "no difference"


def test_unpaired_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="paired blocks"):
        paired_ratio([1.0, 2.0], [1.0])


def test_interval_covers_the_true_ratio_under_drift_and_bursts() -> None:
    """99 % intervals in 200 experiments on a drifting machine with one-sided bursts: at most 8 may miss."""
    missed = 0
    for experiment in range(200):
        chance = np.random.default_rng(experiment)
        drift = np.exp(
            np.cumsum(chance.normal(0, 0.02, 30))
        )  # a random walk that both blocks of a pair share
        bursts = 1 + 0.3 * (chance.random((2, 30)) < 0.1)
        a, b = drift * bursts * np.exp(chance.normal(0, 0.02, (2, 30)))
        ratio = paired_ratio(a.tolist(), (1.05 * b).tolist(), seed=experiment)
        missed += not ratio.low <= 1.05 <= ratio.high
    assert missed <= 8
