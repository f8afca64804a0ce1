"""`tilewright conformance`."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tilewright.cli.conformance.cases import KINDS, Case, load_cases
from tilewright.cli.conformance.operators import write_table
from tilewright.cli.conformance.outcome import Outcome, run_case
from tilewright.cli.conformance.report import as_json, by_operator, show
from tilewright.cli.conformance.workers import run_tasks
from tilewright.cli.output import check_writable, table_console, write_json
from tilewright.config import CompileOptions
from tilewright.driver import make_target, require_runnable
from tilewright.errors import TilewrightError, UsageError

INTERRUPTED = 130


@dataclass(frozen=True)
class Request:
    """What the user asked for; limit: seconds for one case."""

    kinds: tuple[str, ...]
    pattern: str
    jobs: int
    limit: float
    failures: bool
    docs: Path | None
    json_to: str | None
    quiet: bool


def run_conformance(request: Request, options: CompileOptions) -> None:
    """Runs the suite and reports. Exits with 1 when a case failed, 130 when interrupted.

    Everything is compiled anew unless the user names a cache folder. Raises UsageError.
    """
    if request.docs is not None:
        check_writable(request.docs)
    _check_target(options)
    cases = load_cases(request.kinds or KINDS[:1], request.pattern)
    if not cases:
        raise UsageError(f"-k {request.pattern}: no case of that name")
    start = time.perf_counter()
    with ExitStack() as stack:
        folder = options.cache_dir
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-")))
        results, complete = _run(cases, request, _compile_options(options, folder))
    facts = {
        "target": options.target,
        "level": options.level,
        "kinds": list(request.kinds or KINDS[:1]),
        "complete": complete,
        "seconds": round(time.perf_counter() - start, 1),
    }
    if request.json_to is not None:
        write_json(request.json_to, as_json(cases, results, facts))
    if request.docs is not None and complete:
        counts = {name: found for name, found in by_operator(cases, results).items() if name.isidentifier()}
        write_table(request.docs, {options.target.partition(":")[0]: counts})
    if request.json_to != "-":
        console = table_console()
        show(console, cases, results, request.failures)
        console.print(f"target {options.target}, {facts['seconds']} s")
    if not complete:
        raise typer.Exit(INTERRUPTED)
    if any(outcome.status == "failed" for outcome in results.values()):
        raise typer.Exit(1)


def _check_target(options: CompileOptions) -> None:
    """Raise UsageError, before anything is loaded, for an unknown target, or a machine that cannot run here.

    Asked in a process of its own: an OpenCL platform that has started does not survive a fork.
    """

    def task(_: int) -> Outcome:
        try:
            make_target(replace(options, threads=options.threads or 1))
            require_runnable(options)
        except TilewrightError as error:
            return Outcome("refused", str(error))
        return Outcome("passed")

    ((_, outcome),) = run_tasks(task, [0], jobs=1, limit=60.0)
    if outcome.status != "passed":
        raise UsageError(outcome.reason)


def _run(cases: list[Case], request: Request, options: Mapping[str, Any]) -> tuple[dict[int, Outcome], bool]:
    """Outcomes by the index of their case; False when the user stopped it, with what was done until then."""
    results: dict[int, Outcome] = {}

    def task(index: int) -> Outcome:
        return run_case(cases[index], options)

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = request.quiet or not console.is_terminal
    # No thread refreshes the bar: workers are forked while it is shown.
    with Progress(*columns, console=console, transient=True, auto_refresh=False, disable=hidden) as bar:
        shown = bar.add_task("conformance", total=len(cases))
        try:
            for index, outcome in run_tasks(task, list(range(len(cases))), request.jobs, request.limit):
                results[index] = outcome
                counted = Counter(o.status for o in results.values())
                bar.update(shown, advance=1, description=f"{counted['passed']} passed", refresh=True)
        except KeyboardInterrupt:
            return results, False
    return results, True


def _compile_options(options: CompileOptions, folder: Path) -> dict[str, Any]:
    """As `tilewright.compile` takes them; one thread, because cases run side by side."""
    return {
        "target": options.target,
        "precision": options.precision,
        "threads": options.threads or 1,
        "opt_level": options.level,
        "without": options.without,
        "cache_dir": folder,
        "dims": options.dims,
        "machine": options.machine,
        "verify_each": options.verify_each,
    }
