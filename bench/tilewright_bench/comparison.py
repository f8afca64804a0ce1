"""`tilewright bench`: models × engines → rows and pairs, the JSON that reports read."""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.errors import CacheError, RunError
from tilewright_bench.affinity import pinned
from tilewright_bench.children import cold_start
from tilewright_bench.concurrent import Callers
from tilewright_bench.denormals import flushes_denormals
from tilewright_bench.engines.base import Arrays, Engine, EngineSpec, Session, Settings
from tilewright_bench.engines.registry import engine_of
from tilewright_bench.environment import describe
from tilewright_bench.errors_against import error_against
from tilewright_bench.inputs import seeded_inputs
from tilewright_bench.measure import Measurement, Plan, Samples, measure
from tilewright_bench.models import ModelFile
from tilewright_bench.progress import Reporter
from tilewright_bench.reference import float64_reference
from tilewright_bench.statistics import summarise

Json = dict[str, Any]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """What to compare. The first engine is the one that the others are compared with."""

    models: Sequence[ModelFile]
    engines: Sequence[EngineSpec]
    settings: Settings
    plan: Plan


@dataclass
class Entry:
    """One engine on one model: its row so far, and the session that will be measured."""

    spec: EngineSpec
    row: Json
    session: Session | None = None

    def failed(self, error: Exception) -> None:
        """Keep the error in the row; the run goes on, and ends with exit code 1."""
        log.debug("%s on %s", self.spec.text, self.row["model"], exc_info=error)
        self.session = None
        self.row["error"] = f"{type(error).__name__}: {error}"


def compare(request: Request, reporter: Reporter) -> Json:
    """Measure every engine on every model, with equal threads, pinned; see DESIGN for the fields.

    A model or engine that fails leaves a row with `error`. Ctrl-C keeps what is complete and sets
    `interrupted`. Raises UsageError when an engine is not available, CacheError when the cache cannot be
    written.
    """
    engines = {spec.text: engine_of(spec) for spec in request.engines}
    result: Json = {"environment": {}, "rows": [], "pairs": [], "not_compared": [], "interrupted": False}
    with (
        tempfile.TemporaryDirectory(prefix="tilewright-bench-") as name,
        pinned(request.settings.threads * request.settings.concurrency) as affinity,
    ):
        result["environment"] = describe(affinity, request.settings.threads)
        try:
            ftz = _denormals(request, engines, Path(name), reporter)
            for model in request.models:
                _compare_on(model, request, engines, ftz, Path(name), reporter, result)
        except KeyboardInterrupt:
            result["interrupted"] = True
    return result


def has_failed(result: Mapping[str, Any]) -> bool:
    """Whether a row carries an error or the run was interrupted: exit code 1."""
    return result["interrupted"] or any("error" in row for row in result["rows"])


def _denormals(
    request: Request, engines: Mapping[str, Engine], folder: Path, reporter: Reporter
) -> dict[str, bool | str]:
    reporter.stage("do the engines flush denormals?")
    # The probe has no dimensions to bind.
    settings = replace(request.settings, dims={})
    return {
        spec.text: flushes_denormals(engines[spec.text], spec, settings, folder) for spec in request.engines
    }


def _compare_on(
    model: ModelFile,
    request: Request,
    engines: Mapping[str, Engine],
    ftz: Mapping[str, bool | str],
    folder: Path,
    reporter: Reporter,
    result: Json,
) -> None:
    entries = [Entry(spec, _empty_row(model, spec, request)) for spec in request.engines]
    for entry in entries:
        reporter.stage(f"{model.name}: {entry.spec.text}: cold start")
        _start(entry, engines[entry.spec.text], model, request, ftz[entry.spec.text], folder)
    inputs = next((seeded_inputs(e.session.inputs, request.plan.seed) for e in entries if e.session), {})
    reporter.stage(f"{model.name}: float64 reference")
    _check(entries, model, inputs, request)
    running = [entry for entry in entries if entry.session is not None]
    measurement = _measure(model, running, inputs, request.plan, reporter) if running else None
    if measurement is not None:
        _fill(running, measurement)
        result["pairs"] += _pairs(model, running, measurement, request.plan)
        result["not_compared"] += _not_compared(model, running)
    # After Ctrl-C the engines that were not measured have no row; what is there is whole.
    result["rows"] += [entry.row for entry in entries if "median_ms" in entry.row or "error" in entry.row]
    if measurement is not None and measurement.interrupted:
        raise KeyboardInterrupt


def _empty_row(model: ModelFile, spec: EngineSpec, request: Request) -> Json:
    row: Json = {
        "model": model.name,
        "engine": spec.text,
        "precision": request.settings.precision,
        "threads": request.settings.threads,
        "target": spec.target,
    }
    if model.batch is not None or request.settings.concurrency > 1:
        row |= {"batch": model.batch or 1, "concurrency": request.settings.concurrency}
    return row


def _start(
    entry: Entry, engine: Engine, model: ModelFile, request: Request, ftz: bool | str, folder: Path
) -> None:
    spec, settings = entry.spec, request.settings
    try:
        prepared = engine.prepare(model.path, spec, settings, folder)
        cold = cold_start(prepared, spec, settings, request.plan.seed)
        session = engine.load(prepared, spec, settings)
    except CacheError:
        raise  # no row could be measured
    except Exception as error:  # whatever an engine raises belongs into its row
        entry.failed(error)
        return
    entry.session = session
    entry.row |= asdict(cold) | {
        "precision": session.precision,
        "compile_s": prepared.compile_s,
        "provenance": {
            "model_sha256": model.sha256,
            "engine_version": engine.availability().version,
            "records_sha256": prepared.records_sha256,
            "ftz": ftz,
            **session.notes,
        },
    }


def _check(entries: Sequence[Entry], model: ModelFile, inputs: Arrays, request: Request) -> None:
    """Run each session once and fill in its error against the float64 evaluation."""
    outputs: dict[int, Arrays] = {}
    for index, entry in enumerate(entries):
        if entry.session is None:
            continue
        try:
            outputs[index] = entry.session.run(inputs)
        except Exception as error:  # as above
            entry.failed(error)
    if not outputs:
        return
    try:
        reference = float64_reference(model.path, inputs, request.settings.dims)
    except Exception as error:  # the time is still worth a row, but the row must not look complete
        for index in outputs:
            entries[index].row["error"] = f"no float64 reference: {type(error).__name__}: {error}"
        return
    for index, got in outputs.items():
        try:
            entries[index].row |= asdict(error_against(got, reference))
            _check_class(entries[index])
        except (ValueError, RunError) as error:
            entries[index].failed(error)


def _check_class(entry: Entry) -> None:
    """An engine may compute in less than it was asked for and not say so; its error tells."""
    limit = entry.session.l2_limit if entry.session else None
    found = entry.row["l2_rel_err"]
    if limit is not None and found > limit:
        raise RunError(
            f"precision {entry.row['precision']} was asked for, but the relative error is {found:.1e}, above "
            f"{limit:.0e}: the engine computes in less, or by an inaccurate algorithm"
        )


def _measure(
    model: ModelFile, running: Sequence[Entry], inputs: Arrays, plan: Plan, reporter: Reporter
) -> Measurement | None:
    cap_s = plan.duration_s * max(1, len(running) - 1)
    reporter.stage(f"{model.name}: interleaved blocks of {len(running)} engines, at most {cap_s:g} s", cap_s)

    def call_of(session: Session) -> Any:
        return lambda: session.run(inputs)

    sessions = [entry.session for entry in running if entry.session is not None]
    count = running[0].row.get("concurrency", 1)
    try:
        with ExitStack() as stack:
            if count == 1:
                calls: list[Any] = [call_of(session) for session in sessions]
            else:
                calls = [stack.enter_context(Callers(session, inputs, count)) for session in sessions]
            found = measure(calls, plan, on_round=lambda rounds, seconds: reporter.advance(seconds))
            if count > 1:
                _per_run(found, calls)
            return found
    except Exception as error:  # an engine that fails after its first run
        for entry in running:
            entry.failed(error)
        return None


def _per_run(measurement: Measurement, callers: Sequence[Callers]) -> None:
    """Samples of several runs become samples of one, and ratios those of one; both in place."""
    for samples, one in zip(measurement.samples, callers, strict=True):
        samples.blocks_ms = [[sample / one.runs for sample in block] for block in samples.blocks_ms]
    first = callers[0].runs
    measurement.ratios = [
        ratio.scaled(first / one.runs) for ratio, one in zip(measurement.ratios, callers[1:], strict=True)
    ]


def _fill(running: Sequence[Entry], measurement: Measurement) -> None:
    for entry, samples in zip(running, measurement.samples, strict=True):
        if not samples.blocks_ms:
            continue
        entry.row |= _steady_state(samples, measurement)
        if "batch" in entry.row:
            images = entry.row["batch"] * entry.row["concurrency"]
            entry.row["images_per_s"] = 1e3 * images / entry.row["median_ms"]


def _steady_state(samples: Samples, measurement: Measurement) -> Json:
    summary = summarise(samples.all_ms)
    return {
        "median_ms": summary.median,
        "p10_ms": summary.p10,
        "p90_ms": summary.p90,
        "samples_ms": [round(sample, 6) for sample in samples.all_ms],
        "calls_per_block": samples.calls_per_block,
        "noisy_blocks": measurement.noisy_blocks,
        "capped": measurement.capped,
    }


def _pairs(model: ModelFile, running: Sequence[Entry], measurement: Measurement, plan: Plan) -> list[Json]:
    first = running[0]
    return [
        {
            "model": model.name,
            "precision": other.row["precision"],
            "threads": other.row["threads"],
            "a": first.spec.text,
            "b": other.spec.text,
            "ratio": ratio.value,
            "ci_low": ratio.low,
            "ci_high": ratio.high,
            "verdict": ratio.verdict,
            "half_width": ratio.half_width,
            "block_pairs": ratio.pairs,
            "capped": measurement.capped and ratio.half_width > plan.half_width,
        }
        for other, ratio in zip(running[1:], measurement.ratios, strict=False)  # no ratios without a round
        if other.row["precision"] == first.row["precision"]
    ]


def _not_compared(model: ModelFile, running: Sequence[Entry]) -> list[Json]:
    """Engines that computed in another precision class: they have rows, but no pair."""
    first = running[0]
    return [
        {
            "model": model.name,
            "a": first.spec.text,
            "b": other.spec.text,
            "reason": f"precision class {first.row['precision']} against {other.row['precision']}",
        }
        for other in running[1:]
        if other.row["precision"] != first.row["precision"]
    ]
