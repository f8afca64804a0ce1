"""What `tilewright bench` does: compare or self-test, then write and show."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.errors import UsageError
from tilewright_bench import tables
from tilewright_bench.affinity import checked_threads, usable_cpus
from tilewright_bench.batches import loads
from tilewright_bench.comparison import Request, compare, has_failed
from tilewright_bench.engines.base import Settings
from tilewright_bench.engines.registry import parse_engine
from tilewright_bench.measure import Plan
from tilewright_bench.models import ModelFile, check_model, find_model, suite_names
from tilewright_bench.options import engines_of
from tilewright_bench.outputs import Outputs
from tilewright_bench.progress import Reporter
from tilewright_bench.selftest import DURATION_S, ENGINE, MODEL, selftest
from tilewright_bench.selftest_children import selftest_at
from tilewright_bench.sizes import check_sizes


def run_bench(
    models: Sequence[str],
    suite: str | None,
    engines: Sequence[str],
    settings: Settings,
    duration: float | None,
    outputs: Outputs,
    command: Sequence[str],
    batches: Sequence[int] = (),
) -> bool:
    """Compare, write, show; False when something failed. `command` is what the user gave, for the result.

    Raises UsageError for what cannot be run at all.
    """
    outputs.prepare(models)
    specs = engines_of(engines)
    names = [*models, *(suite_names(suite) if suite else [])]
    if not names:
        raise UsageError("nothing to measure: give a MODEL, --suite NAME or --selftest")
    plan = Plan() if duration is None else Plan(duration_s=duration)
    checked_threads(settings.threads * settings.concurrency)
    with (
        tempfile.TemporaryDirectory(prefix="tilewright-batches-") as folder,
        Reporter(outputs.quiet) as reporter,
    ):
        asked = loads(_models(names, settings), batches, settings.concurrency, Path(folder))
        result = compare(Request(asked, specs, settings, plan), reporter)
    result["environment"]["command"] = [*command]
    _write(result, outputs)
    return not has_failed(result)


def run_selftest(
    models: Sequence[str],
    engines: Sequence[str],
    settings: Settings,
    threads: int | None,
    runs: int,
    duration: float | None,
    outputs: Outputs,
) -> bool:
    """Run the self-test and print its figures as JSON; False when the method could not tell."""
    outputs.prepare(models)
    if len(models) > 1 or len(engines) > 1:
        raise UsageError("--selftest takes at most one MODEL and one --engine")
    spec = parse_engine(engines[0] if engines else ENGINE)
    (model,) = _models(models or [MODEL], settings)
    counts = sorted({1, min(2, len(usable_cpus()))})
    plan = replace(Plan(), duration_s=duration or DURATION_S)
    if threads:
        with Reporter(outputs.quiet) as reporter:
            result = selftest(model, spec, settings, runs, plan, reporter)
    else:
        result = selftest_at(counts, model, spec, settings, runs, plan, outputs.quiet)
    replace(outputs, json_to=outputs.json_to or "-").write(result)
    return bool(result["passed"])


def _models(names: Sequence[str], settings: Settings) -> list[ModelFile]:
    found = [find_model(name) for name in names]
    for model in found:
        check_model(model, settings.dims)
    check_sizes([model.path for model in found], settings.dims)
    return found


def _write(result: dict[str, Any], outputs: Outputs) -> None:
    cells = tables.bench_cells(result)
    if outputs.shows_tables:
        tables.show("interleaved, batch as in the model", tables.BENCH_HEAD, cells)
    outputs.write(result, tables.bench_csv(result), tables.markdown(tables.BENCH_HEAD, cells))
