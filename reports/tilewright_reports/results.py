"""The JSON files of `tilewright bench` and `tilewright accuracy` as tables, and what had to be left out.

Every table carries the machine and the run (the file) of its rows: comparisons group by them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tilewright_reports import provenance
from tilewright_reports.machines import bench_machine
from tilewright_reports.sources import Source

Json = Mapping[str, Any]

LATENCY = (
    "model", "engine", "precision", "threads", "target", "median_ms", "p10_ms", "p90_ms", "compile_s",
    "load_s", "first_ms", "peak_rss_mb", "l2_rel_err", "max_abs_err", "capped", "batch", "concurrency",
    "images_per_s",
)  # fmt: skip
ERRORS = ("l2_rel_err", "max_abs_err")
PAIRS = (
    "model", "precision", "threads", "a", "b", "ratio", "ci_low", "ci_high", "verdict", "capped",
    "block_pairs",
)  # fmt: skip
ACCURACY = ("model", "engine", "precision", "threads", "dataset", "n", "top1", "top5", "top1_ci")
AGREEMENTS = (
    "model", "precision", "threads", "dataset", "a", "b", "n", "agree_top1", "max_margin_of_flip",
    "flip_count",
)  # fmt: skip
FLIPS = ("image", "label", "a_class", "b_class", "a_margin", "b_margin")
ORIGIN = ("run", "machine")
PROVENANCE = ("model_sha256", "engine_version", "ftz", "records_sha256", "spinning")


@dataclass(frozen=True)
class LeftOut:
    """A row that a file has and the report has not."""

    run: str
    what: str
    reason: str


@dataclass(frozen=True)
class Results:
    """Tables of all runs. `pairs` and `agreements` join rows of one run only."""

    latency: pd.DataFrame
    pairs: pd.DataFrame
    accuracy: pd.DataFrame
    agreements: pd.DataFrame
    flips: pd.DataFrame
    left_out: Sequence[LeftOut]


def collect(bench: Sequence[Source], accuracy: Sequence[Source]) -> Results:
    """Read rows and pairs of all files; whatever cannot be reported is in `left_out` with its reason."""
    left_out: list[LeftOut] = []
    latency = [row for source in bench for row in _latency_rows(source, left_out)]
    pairs = [pair for source in bench for pair in _pairs(source, left_out)]
    shares = [row for source in accuracy for row in _accuracy_rows(source, left_out)]
    agreements = [pair for source in accuracy for pair in _agreements(source, left_out)]
    flips = [flip for pair in agreements for flip in _flips(pair)]
    return Results(
        pd.DataFrame(latency, columns=[*ORIGIN, *LATENCY, *PROVENANCE]),
        pd.DataFrame(pairs, columns=[*ORIGIN, *PAIRS]),
        pd.DataFrame(shares, columns=[*ORIGIN, *ACCURACY, *PROVENANCE]),
        pd.DataFrame(agreements, columns=[*ORIGIN, *AGREEMENTS]),
        pd.DataFrame(flips, columns=[*ORIGIN, "model", "dataset", "a", "b", *FLIPS]),
        left_out,
    )


def unreportable(row: Json, environment: Json, kind: str) -> str | None:
    """Why a row of a bench or accuracy file cannot be reported, or None."""
    if row.get("error"):
        return f"failed: {row['error']}"
    needed = ("median_ms", "p10_ms", "p90_ms") if kind == "bench" else ("n", "top1", "top5")
    absent = [name for name in needed if row.get(name) is None]
    if absent:
        return f"incomplete: without {', '.join(absent)}"
    if kind == "bench":
        missing = provenance.missing_provenance(row, environment, provenance.BENCH, provenance.BENCH_KEYS)
    else:
        missing = provenance.missing_provenance(row, environment, provenance.ACCURACY)
    return f"provenance is not complete: without {', '.join(missing)}" if missing else None


def _latency_rows(source: Source, left_out: list[LeftOut]) -> Iterator[dict[str, Any]]:
    for row, origin in _reportable(source, "bench", left_out):
        figures = _picked(row, LATENCY)
        for name in ERRORS:
            # Strict JSON has no infinity: null is an error that is not finite.
            figures[name] = math.inf if name in row and row[name] is None else figures[name]
        yield origin | figures | _picked(row["provenance"], PROVENANCE)


def _accuracy_rows(source: Source, left_out: list[LeftOut]) -> Iterator[dict[str, Any]]:
    for row, origin in _reportable(source, "accuracy", left_out):
        yield origin | _picked(row, ACCURACY) | _picked(row["provenance"], PROVENANCE)


def _reportable(source: Source, kind: str, left_out: list[LeftOut]) -> Iterator[tuple[Json, dict[str, Any]]]:
    environment = source.data.get("environment") or {}
    origin = _origin(source)
    for row in source.data["rows"]:
        reason = unreportable(row, environment, kind)
        if reason is None:
            yield row, origin
        else:
            left_out.append(LeftOut(source.name, f"{row.get('model')} on {row.get('engine')}", reason))


def _pairs(source: Source, left_out: list[LeftOut]) -> Iterator[dict[str, Any]]:
    rows = _rows_by_key(source, "bench")
    for pair in source.data.get("pairs") or []:
        reason = _unpaired(pair, rows, ())
        if reason is None:
            yield _origin(source) | _picked(pair, PAIRS)
        else:
            left_out.append(LeftOut(source.name, _pair_name(pair), reason))
    for pair in source.data.get("not_compared") or []:
        left_out.append(LeftOut(source.name, _pair_name(pair), f"not compared: {pair['reason']}"))


def _agreements(source: Source, left_out: list[LeftOut]) -> Iterator[dict[str, Any]]:
    rows = _rows_by_key(source, "accuracy")
    for pair in source.data.get("pairs") or []:
        found = rows.get((pair["model"], pair["a"]), {})
        # These stand in every file of ours, but DESIGN's contract for a pair does not promise them.
        whole = {key: found.get(key) for key in ("precision", "threads", "dataset", "n")} | dict(pair)
        reason = _unpaired(whole, rows, ("dataset", "n"))
        if reason is None:
            count = {"flip_count": len(pair["flips"])}
            yield _origin(source) | _picked(whole | count, AGREEMENTS) | {"flips": pair["flips"]}
        else:
            left_out.append(LeftOut(source.name, _pair_name(pair), reason))


def _flips(pair: Json) -> Iterator[dict[str, Any]]:
    for flip in pair["flips"]:
        yield _picked(pair, (*ORIGIN, "model", "dataset", "a", "b")) | _picked(flip, FLIPS)


def _unpaired(pair: Json, rows: Mapping[tuple[str, str], Json], also: Sequence[str]) -> str | None:
    """Why the two rows of a pair may not be compared, or None."""
    sides = [rows.get((pair["model"], pair[side])) for side in ("a", "b")]
    if None in sides:
        return "one of its rows is left out"
    for field in ("precision", "threads", *also):
        values = [
            str(value) for value in dict.fromkeys([pair.get(field), *(side[field] for side in sides if side)])
        ]
        if len(values) > 1:
            return f"not comparable: {field} is {' and '.join(values)}"
    return None


def _rows_by_key(source: Source, kind: str) -> dict[tuple[str, str], Json]:
    environment = source.data.get("environment") or {}
    return {
        (row["model"], row["engine"]): row
        for row in source.data["rows"]
        if unreportable(row, environment, kind) is None
    }


def _pair_name(pair: Json) -> str:
    return f"{pair.get('model')}: {pair.get('a')} beside {pair.get('b')}"


def _origin(source: Source) -> dict[str, Any]:
    return {"run": source.name, "machine": bench_machine(source.data.get("environment") or {})}


def _picked(row: Json, names: Sequence[str]) -> dict[str, Any]:
    return {name: row.get(name) for name in names}
