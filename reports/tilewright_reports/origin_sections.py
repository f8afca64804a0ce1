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
    lines += [_measuring("bench", source) for source in sources.bench]
    lines += [_measuring("accuracy", source) for source in sources.accuracy]
    lines += [_measuring_layers(source) for source in sources.layers]
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


def _measuring(kind: str, source: Source) -> str:
    """The command of a file: the one it recorded, or one put together from its rows."""
    recorded = _environment(source).get("command")
    if recorded:
        return str(recorded) if isinstance(recorded, str) else shlex.join(map(str, recorded))
    rows = source.data["rows"]
    # A name like resnet18[batch=4] says what was asked of the model, which are options here.
    command = ["tilewright", kind, *dict.fromkeys(str(row["model"]).partition("[")[0] for row in rows)]
    batches = dict.fromkeys(str(row["batch"]) for row in rows if "[batch=" in str(row["model"]))
    command += ["--batch", ",".join(batches)] if batches else []
    for count in dict.fromkeys(row["concurrency"] for row in rows if (row.get("concurrency") or 1) > 1):
        command += ["--concurrency", str(count)]
    for option, field in (("--engine", "engine"), ("--threads", "threads"), ("--dataset", "dataset")):
        for value in dict.fromkeys(str(row[field]) for row in rows if field in row):
            command += [option, value]
    return shlex.join([*command, "--json", source.name.rpartition("/")[2][NUMBER:]])


def _measuring_layers(source: Source) -> str:
    data = source.data
    command = ["tilewright", "layers", str(data.get("model"))]
    for row in data.get("networks") or []:
        command += ["--engine", str(row["engine"])]
    threads = (data.get("ceilings") or {}).get("threads")
    command += ["--threads", str(threads)] if threads else []
    return shlex.join([*command, "--json", source.name.rpartition("/")[2][NUMBER:]])


def _fact(run: Source, name: str) -> str:
    return text(_environment(run).get(name))


def _package(run: Source, name: str) -> str:
    return text((_environment(run).get("packages") or {}).get(name))


def _packages(runs: Sequence[Source]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in _environment(run).get("packages") or {}))


def _environment(run: Source) -> dict[str, Any]:
    return run.data.get("environment") or {}
