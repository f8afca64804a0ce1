"""Where the numbers come from: what was left out, environments, models, engines, and the commands."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from tilewright_reports.cells import table, text
from tilewright_reports.page import Section
from tilewright_reports.provenance import repeatable
from tilewright_reports.results import LeftOut, Results
from tilewright_reports.sources import Source, Sources

FACTS = (
    "time_utc", "commit", "dirty", "cpu", "affinity", "usable_cpus", "host_cpus", "threads", "governor",
    "turbo", "cpuset", "cpu_quota", "container", "machine", "kernel", "load_average", "python", "spinning",
)  # fmt: skip
LEFT_OUT_NOTE = "Rows and pairs that the raw files hold and the tables above do not show."
NUMBER = len("01-")  # how a raw file's name begins
DIRTY_NOTE = "not repeatable: its code is not exactly that of a commit"
AGAIN_NOTE = (
    "The first commands measure again (on another day and machine, so with other numbers); the last one "
    "makes this page from its raw files, and --check says whether the page agrees with them."
)


def left_out_section(left_out: Sequence[LeftOut]) -> Iterator[Section]:
    """What is missing and why; nothing when nothing is."""
    if left_out:
        cells = [(item.run, item.what, item.reason) for item in left_out]
        yield Section(
            "Left out", [LEFT_OUT_NOTE], table(("run", "what", "reason"), cells, ("run", "what", "reason"))
        )


def provenance_sections(sources: Sources, results: Results) -> Iterator[Section]:
    """One table of facts with a column per run, and one of models and engines."""
    runs = [*sources.bench, *sources.accuracy, *sources.layers]
    if not runs:
        return
    cells = [(fact, *(_fact(run, fact) for run in runs)) for fact in FACTS]
    cells += [(f"package {name}", *(_package(run, name) for run in runs)) for name in _packages(runs)]
    cells += [("flags", *(" ".join(_environment(run).get("flags") or []) for run in runs))]
    cells = [line for line in cells if any(line[1:])]
    head = ("fact", *(run.name for run in runs))
    yield Section("Environment", unrepeatable(runs), table(head, cells, head))
    rows = pd.concat([results.latency, results.accuracy])
    if len(rows):
        columns = ["run", "model", "engine", "engine_version", "model_sha256", "records_sha256", "spinning"]
        lines = [tuple(text(value) for value in line) for line in rows[columns].itertuples(index=False)]
        yield Section("Provenance of each row", [], table(columns, lines, columns))


def unrepeatable(runs: Sequence[Source]) -> list[str]:
    """A warning for each run whose code no commit names."""
    return [f"{run.name} is {DIRTY_NOTE}." for run in runs if not repeatable(_environment(run))]


def again_section(sources: Sources) -> Section:
    """The commands that made the raw files, and the one that makes the page from them."""
    commits = dict.fromkeys(
        _environment(run)["commit"]
        for run in (*sources.bench, *sources.accuracy, *sources.layers)
        if repeatable(_environment(run))
    )
    lines = [f"git checkout {commit} && pip install --editable ." for commit in commits]
    lines += map(_measuring, (*sources.bench, *sources.accuracy, *sources.layers))
    if sources.asv:
        lines.append("make asv")
    report = ["tilewright", "report"]
    kinds = (("bench", sources.bench), ("accuracy", sources.accuracy), ("layers", sources.layers))
    for kind, files in kinds:
        for source in files:
            report += [f"--{kind}", f"raw/{source.name}"]
    report += ["--asv", "raw/asv"] if sources.asv else []
    lines += [shlex.join([*report, "-o", "."]), "tilewright report --check -o ."]
    return Section("How to make it again", [AGAIN_NOTE], code="\n".join(lines))


def _measuring(source: Source) -> str:
    """The command that the file recorded, as a line of a shell; one that says so where it recorded none."""
    command = _environment(source).get("command")
    if not command:
        return f"# {source.name} does not record the command that measured it"
    return shlex.join([*map(str, command), "--json", source.name.rpartition("/")[2][NUMBER:]])


def _fact(run: Source, name: str) -> str:
    return text(_environment(run).get(name))


def _package(run: Source, name: str) -> str:
    return text((_environment(run).get("packages") or {}).get(name))


def _packages(runs: Sequence[Source]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in _environment(run).get("packages") or {}))


def _environment(run: Source) -> dict[str, Any]:
    return run.data.get("environment") or {}
