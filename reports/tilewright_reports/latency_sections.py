"""Latency: one section for each machine, thread count and precision class, so nothing else is ever mixed."""

from collections.abc import Iterator

import pandas as pd

from tilewright_reports.cells import milliseconds, number, scientific, table, text
from tilewright_reports.mean_sections import ablation_section, mean_section
from tilewright_reports.page import Figure, Section, Table
from tilewright_reports.results import Results
from tilewright_reports.runs import panel_name, run_cell, runs_note
from tilewright_reports.table2_section import table2_section

GROUP = ["machine", "threads", "precision"]
COLUMNS_NOTE = (
    "median, p10 and p90 are of single calls in the steady state, host array in, host array out; first is "
    "the first run and load the load in a fresh process (without imports, page cache warm); compile is "
    "work ahead of time; peak is the resident memory of that process; error is relative (L2) to a float64 "
    "evaluation."
)
RATIO_NOTE = (
    "ratio is the median over interleaved block pairs of (time of b / time of a), with its 99 % bootstrap "
    "interval; above 1: a is faster. The verdict is about a. A capped pair reached the time limit before "
    "its interval was as narrow as asked."
)


def latency_sections(results: Results) -> Iterator[Section]:
    """For each group: the table, the pairs, and the bars of each model and engine."""
    groups = results.latency.groupby(GROUP, sort=False)
    for count, ((machine, threads, precision), rows) in enumerate(groups, 1):
        title = f"Latency: {precision}, {threads} thread{'' if threads == 1 else 's'}, on {machine}"
        figure = Figure(f"latency-{count}.svg", _alt("Median latency", rows), "bars", _bars(rows))
        yield Section(title, [COLUMNS_NOTE, runs_note(rows)], _latency_table(rows), figure)
        pairs = _same_group(results.pairs, rows)
        if len(pairs):
            alt = _alt("Time of b / time of a with interval", rows)
            ratios = Figure(f"ratios-{count}.svg", alt, "ratios", _ratios(pairs))
            yield Section("Pairs of this section", [RATIO_NOTE], _pair_table(pairs), ratios, level=3)
            yield from mean_section(pairs)
            yield from ablation_section(pairs)
        yield from table2_section(rows, pairs)


def _bars(rows: pd.DataFrame) -> list[dict[str, object]]:
    """What the plot of these rows draws: per model (and run) its engines with median, p10, p90 in ms."""
    drawn: list[dict[str, object]] = []
    for (run, model), engines in rows.groupby(["run", "model"], sort=False):
        points = [
            {"engine": row.engine, "value": row.median_ms, "low": row.p10_ms, "high": row.p90_ms}
            for row in engines.itertuples()
        ]
        drawn.append({"name": panel_name(model, run, rows), "unit": "ms", "points": points})
    return drawn


def _latency_table(rows: pd.DataFrame) -> Table:
    head = (
        "model", "engine", "median ms", "p10", "p90", "first ms", "load s", "compile s", "peak MB",
        "images/s", "l2_rel_err", "max_abs_err", "flushes denormals", "run",
    )  # fmt: skip
    cells = [
        (
            row.model,
            row.engine,
            milliseconds(row.median_ms),
            milliseconds(row.p10_ms),
            milliseconds(row.p90_ms),
            milliseconds(row.first_ms),
            number(row.load_s, 3),
            number(row.compile_s, 2),
            number(row.peak_rss_mb, 0),
            number(row.images_per_s, 1),
            scientific(row.l2_rel_err),
            scientific(row.max_abs_err),
            text(row.ftz),
            run_cell(row.run, rows),
        )
        for row in rows.itertuples()
    ]
    return table(head, cells, ("model", "engine", "flushes denormals", "run"))


def _pair_table(pairs: pd.DataFrame) -> Table:
    head = ("model", "a", "b", "ratio b/a", "99 % interval", "a is", "capped", "run")
    cells = [
        (
            pair.model,
            pair.a,
            pair.b,
            number(pair.ratio, 3),
            f"{pair.ci_low:.3f} to {pair.ci_high:.3f}",
            pair.verdict,
            "yes" if pair.capped is True else "",
            run_cell(pair.run, pairs),
        )
        for pair in pairs.itertuples()
    ]
    return table(head, cells, ("model", "a", "b", "a is", "capped", "run"))


def _same_group(pairs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    first = rows.iloc[0]
    same = [pairs[column] == first[column] for column in GROUP]
    return pairs[same[0] & same[1] & same[2]]


def _ratios(pairs: pd.DataFrame) -> list[dict[str, object]]:
    return [
        {
            "name": f"{pair.model}: {pair.b} / {pair.a}",
            "ratio": pair.ratio,
            "low": pair.ci_low,
            "high": pair.ci_high,
        }
        for pair in pairs.itertuples()
    ]


def _alt(what: str, rows: pd.DataFrame) -> str:
    engines = ", ".join(dict.fromkeys(rows["engine"]))
    return f"{what}, {rows.iloc[0]['threads']} thread(s): {engines}"
