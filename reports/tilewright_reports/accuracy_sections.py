"""Accuracy: top-k shares for each machine, thread count, precision class and data set, and every flip."""

from collections.abc import Iterator

import pandas as pd

from tilewright_reports.cells import number, scientific, table, text
from tilewright_reports.page import Figure, Section, Table
from tilewright_reports.results import Results
from tilewright_reports.runs import panel_name, run_cell, runs_note

GROUP = ["machine", "threads", "precision", "dataset"]
SHARES_NOTE = (
    "Shares of images whose label is the first, or among the first five classes; 95 % Wilson interval."
)
FLIPS_NOTE = (
    "Images on which two engines name different classes. A margin is how much more probability an engine "
    "gives its own class than the other's: near 0 is a near-tie."
)


def accuracy_sections(results: Results) -> Iterator[Section]:
    """For each group the shares; then agreement of pairs, and the flips one by one."""
    groups = results.accuracy.groupby(GROUP, sort=False)
    for count, ((machine, threads, precision, dataset), rows) in enumerate(groups, 1):
        title = (
            f"Accuracy on {dataset}: {precision}, {threads} thread{'' if threads == 1 else 's'}, on {machine}"
        )
        figure = Figure(f"accuracy-{count}.svg", f"Top-1 accuracy on {dataset}", "bars", _bars(rows))
        yield Section(title, [SHARES_NOTE, runs_note(rows)], _share_table(rows), figure)
    if len(results.agreements):
        yield Section("Agreement on the best class", [], _agreement_table(results.agreements), level=3)
    if len(results.flips):
        yield Section("Flips", [FLIPS_NOTE], _flip_table(results.flips), level=3)


def _bars(rows: pd.DataFrame) -> list[dict[str, object]]:
    drawn: list[dict[str, object]] = []
    for (run, model), engines in rows.groupby(["run", "model"], sort=False):
        points = [
            {"engine": row.engine, "value": row.top1, "low": row.top1_ci[0], "high": row.top1_ci[1]}
            for row in engines.itertuples()
        ]
        drawn.append({"name": panel_name(model, run, rows), "unit": "top-1", "points": points})
    return drawn


def _share_table(rows: pd.DataFrame) -> Table:
    head = ("model", "engine", "images", "top-1", "95 % interval", "top-5", "run")
    cells = [
        (
            row.model,
            row.engine,
            text(row.n),
            number(row.top1, 4),
            f"{row.top1_ci[0]:.3f} to {row.top1_ci[1]:.3f}",
            number(row.top5, 4),
            run_cell(row.run, rows),
        )
        for row in rows.itertuples()
    ]
    return table(head, cells, ("model", "engine", "run"))


def _agreement_table(pairs: pd.DataFrame) -> Table:
    head = ("model", "dataset", "a", "b", "images", "same top-1", "flips", "largest margin of a flip", "run")
    cells = [
        (
            pair.model,
            text(pair.dataset),
            pair.a,
            pair.b,
            text(pair.n),
            number(pair.agree_top1, 4),
            text(pair.flip_count),
            scientific(pair.max_margin_of_flip) if pair.flip_count else "",
            run_cell(pair.run, pairs),
        )
        for pair in pairs.itertuples()
    ]
    return table(head, cells, ("model", "dataset", "a", "b", "run"))


def _flip_table(flips: pd.DataFrame) -> Table:
    head = (
        "model",
        "dataset",
        "image",
        "label",
        "a",
        "class of a",
        "margin",
        "b",
        "class of b",
        "margin of b",
        "run",
    )
    cells = [
        (
            flip.model,
            text(flip.dataset),
            text(flip.image),
            text(flip.label),
            flip.a,
            text(flip.a_class),
            scientific(flip.a_margin),
            flip.b,
            text(flip.b_class),
            scientific(flip.b_margin),
            run_cell(flip.run, flips),
        )
        for flip in flips.itertuples()
    ]
    return table(head, cells, ("model", "dataset", "image", "a", "b", "run"))
