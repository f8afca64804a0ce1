"""`tilewright bench --selftest`: can this method, on this machine, tell 5 % from nothing?

An engine is compared with itself (A/A), and with itself plus a delay of 5 % planted inside the timed region.
The method passes when at least 90 % of each kind are judged right, for every thread count.
"""

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright_bench.affinity import pinned
from tilewright_bench.engines.base import EngineSpec, Session, Settings
from tilewright_bench.engines.registry import engine_of
from tilewright_bench.environment import describe
from tilewright_bench.inputs import seeded_inputs
from tilewright_bench.measure import Clock, Measurement, Plan, measure
from tilewright_bench.models import ModelFile
from tilewright_bench.progress import Reporter
from tilewright_bench.statistics import summarise

PLANTED = 0.05
RIGHT_SHARE = 0.9
MODEL = "dqn"  # short calls: many blocks in little time
ENGINE = "tilewright:cpu"
DURATION_S = 6.0  # cap of one comparison

Json = dict[str, Any]


def selftest(
    model: ModelFile, spec: EngineSpec, settings: Settings, runs: int, plan: Plan, reporter: Reporter
) -> Json:
    """Run the self-test at the settings' thread count; `passed` says whether the method can tell.

    Ctrl-C keeps the complete runs and sets `interrupted`. Raises UsageError when the engine is not available;
    errors of the engine pass through.
    """
    results: list[Json] = []
    interrupted = False
    engine = engine_of(spec)
    with (
        pinned(settings.threads) as affinity,
        tempfile.TemporaryDirectory(prefix="tilewright-selftest-") as folder,
    ):
        environment = describe(affinity, settings.threads)
        try:
            session = engine.load(engine.prepare(model.path, spec, settings, Path(folder)), spec, settings)
            _both_kinds(session, settings.threads, runs, plan, reporter, results)
        except KeyboardInterrupt:
            interrupted = True
    for result in results:
        result["right"] = sum(run["verdict"] == result["expected"] for run in result["runs"])
        result["needed"] = math.ceil(RIGHT_SHARE * runs)
    return {
        "environment": environment,
        "engine": spec.text,
        "engine_version": engine.availability().version,
        "model": model.name,
        "model_sha256": model.sha256,
        "planted": PLANTED,
        "results": results,
        "interrupted": interrupted,
        "passed": not interrupted and all(result["right"] >= result["needed"] for result in results),
    }


def _both_kinds(
    session: Session, threads: int, runs: int, plan: Plan, reporter: Reporter, results: list[Json]
) -> None:
    """Append the results of both kinds, run by run, so that an interruption loses none."""
    inputs = seeded_inputs(session.inputs)

    def plain() -> object:
        return session.run(inputs)

    delay_s = PLANTED * median_call_s(plain, Clock())
    kinds = (
        ("A/A", plain, 0.0, "no difference"),
        ("planted", delayed(plain, delay_s), 1e3 * delay_s, "faster"),
    )
    for kind, other, delay_ms, expected in kinds:
        reporter.stage(f"self-test: {kind}, {threads} threads, {runs} runs", runs)
        figures: list[Json] = []
        results.append(
            {"threads": threads, "kind": kind, "delay_ms": delay_ms, "expected": expected, "runs": figures}
        )
        for run in range(runs):
            figures.append(_figures(measure([plain, other], replace(plan, seed=run))))
            reporter.advance(run + 1)


def median_call_s(call: Callable[[], object], clock: Clock) -> float:
    """Seconds of a warm call: the median of the medians of 15 blocks, so that one slow moment does not set
    it.
    """
    measurement = measure([call], Plan(minimum_rounds=15, duration_s=2.0, half_width=math.inf), clock)
    return summarise(measurement.samples[0].block_medians_ms).median / 1e3


def delayed(call: Callable[[], object], delay_s: float) -> Callable[[], object]:
    """The call followed by a busy wait. Busy, because a sleep would be rounded up and give the CPU away."""

    def run() -> object:
        outputs = call()
        end = time.perf_counter() + delay_s
        while time.perf_counter() < end:
            pass
        return outputs

    return run


def _figures(measurement: Measurement) -> Json:
    if measurement.interrupted:
        raise KeyboardInterrupt
    ratio = measurement.ratios[0]
    return {
        "ratio": ratio.value,
        "ci_low": ratio.low,
        "ci_high": ratio.high,
        "verdict": ratio.verdict,
        "block_pairs": ratio.pairs,
        "capped": measurement.capped,
        "median_ms": [summarise(samples.all_ms).median for samples in measurement.samples],
        "noisy_blocks": measurement.noisy_blocks,
    }
