"""asv's result files (schema version 2) as one table: a row for each benchmark and each of its parameters.

The format, as asv 0.6.6 writes it: lists that zip with `result_columns` (trailing columns may be absent),
parameters as `repr` strings whose product runs last parameter fastest, null for what failed, NaN for what was
skipped, samples and quartiles only where a time was measured.
"""

import ast
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tilewright.errors import DataError
from tilewright_reports.machines import asv_machine
from tilewright_reports.results import LeftOut
from tilewright_reports.sources import Source

SCHEMA = 2
COLUMNS = (
    "run", "machine", "commit", "date", "benchmark", "unit", "model", "engine", "threads", "other",
    "value", "q25", "q75", "state",
)  # fmt: skip
NAMED = ("model", "engine", "threads")
WITHOUT_RESULTS = ("benchmarks.json", "machine.json")

Json = Mapping[str, Any]


def asv_table(sources: Sequence[Source], left_out: list[LeftOut]) -> pd.DataFrame:
    """All results; `state` is ok, failed or skipped, and only an ok row has a `value`, in its `unit`.

    A file that does not say where it was made is left out. Raises DataError for another schema version.
    """
    described = next((s.data for s in sources if s.name == "asv/benchmarks.json"), {})
    rows = [row for source in sources for row in _file_rows(source, described, left_out)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _file_rows(source: Source, described: Json, left_out: list[LeftOut]) -> Iterator[dict[str, Any]]:
    if source.name.rpartition("/")[2] in WITHOUT_RESULTS:
        return
    if source.data.get("version") != SCHEMA:
        raise DataError(
            f"{source.name}: asv results of version {source.data.get('version')}; {SCHEMA} is read"
        )
    params = source.data.get("params") or {}
    missing = [f"params.{name}" for name in ("machine", "cpu") if not params.get(name)]
    missing += [] if source.data.get("commit_hash") else ["commit_hash"]
    if missing:
        reason = f"provenance is not complete: without {', '.join(missing)}"
        left_out.append(LeftOut(source.name, "all its benchmarks", reason))
        return
    origin = {
        "run": source.name,
        "machine": asv_machine(params),
        "commit": source.data["commit_hash"],
        "date": source.data.get("date") or 0,
    }
    for name, values in source.data["results"].items():
        about = described.get(name) or {}
        yield from (
            origin | row for row in _benchmark_rows(name, values, about, source.data["result_columns"])
        )


def _benchmark_rows(
    name: str, values: Sequence[Any] | None, about: Json, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    fields = dict(zip(columns, values or [], strict=False))
    points = list(itertools.product(*(fields.get("params") or about.get("params") or [])))
    results = fields.get("result")
    for index, point in enumerate(points):
        value = None if results is None else results[index]
        state = _state(value)
        yield {
            "benchmark": name,
            "unit": about.get("unit") or "",
            **_parameters(about.get("param_names") or [], point),
            "value": value if state == "ok" else None,
            "q25": _at(fields.get("stats_q_25"), index),
            "q75": _at(fields.get("stats_q_75"), index),
            "state": state,
        }


def _parameters(names: Sequence[str], point: Sequence[str]) -> dict[str, str]:
    named = {name: _plain(text) for name, text in itertools.zip_longest(names, point, fillvalue="")}
    others = [f"{name}={value}" for name, value in named.items() if name not in NAMED]
    return {name: named.get(name, "") for name in NAMED} | {"other": ", ".join(others)}


def _plain(text: str) -> str:
    """The parameter that a `repr` string shows; other texts (asv numbers duplicates) stay as they are."""
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def _state(value: Any) -> str:
    if value is None:
        return "failed"
    return "skipped" if isinstance(value, float) and math.isnan(value) else "ok"


def _at(values: Sequence[Any] | None, index: int) -> Any:
    return None if values is None else values[index]
