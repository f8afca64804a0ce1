"""asv's history: the newest result of each machine, engines side by side only within one machine and thread
count.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from tilewright_reports.cells import milliseconds, number, table, text
from tilewright_reports.page import Section, Table

GROUP = ["machine", "threads"]
NOTE = (
    "Results of the asv suite. Engines ran one after the other, not interleaved, so the ratio to the first "
    "engine of the same benchmark and model has no interval and no verdict."
)
SECONDS = "seconds"
BYTES = "bytes"


def asv_sections(history: pd.DataFrame) -> Iterator[Section]:
    """For each machine and thread count its newest commit, every parameter with its state."""
    for (machine, threads), rows in history.groupby(GROUP, sort=False):
        newest = rows[rows["date"] == rows["date"].max()]
        commits = rows["commit"].nunique()
        notes = [NOTE, f"Commit {newest.iloc[0]['commit'][:12]}, the newest of {commits} on this machine."]
        count = f"{threads} thread{'' if threads == '1' else 's'}, " if threads else ""
        yield Section(f"asv: {count}on {machine}", notes, _table(newest))


def _table(rows: pd.DataFrame) -> Table:
    head = (
        "benchmark",
        "model",
        "other",
        "engine",
        "result",
        "q25",
        "q75",
        "unit",
        "ratio to first engine",
        "state",
    )
    cells = [
        line for _, same in rows.groupby(["benchmark", "model", "other"], sort=False) for line in _lines(same)
    ]
    return table(head, cells, ("benchmark", "model", "other", "engine", "unit", "state"))


def _lines(rows: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    first = rows.iloc[0]
    for row in rows.itertuples():
        comparable = row.unit == SECONDS and row.engine != first["engine"] and row.engine != ""
        known = comparable and row.state == "ok" and first["state"] == "ok"
        values = (_value(number_, row.unit) for number_ in (row.value, row.q25, row.q75))
        yield (
            row.benchmark,
            row.model,
            row.other,
            row.engine,
            *values,
            _unit(row.unit),
            number(row.value / first["value"], 3) if known else "",
            row.state,
        )


def _value(value: Any, unit: str) -> str:
    if pd.isna(value):
        return ""
    if unit == SECONDS:
        return milliseconds(1e3 * value)
    return number(value / 1e6, 1) if unit == BYTES else f"{value:.5g}"


def _unit(unit: str) -> str:
    return {SECONDS: "ms", BYTES: "MB"}.get(unit, text(unit))
