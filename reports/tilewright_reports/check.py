"""Do the numbers of a report follow from its raw data?

Two questions: do the summaries in the raw files follow from their own samples, and is the page the one that
these raw files give?
"""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright_reports.folder import HTML, MARKDOWN
from tilewright_reports.page import Figure, render_html, render_markdown
from tilewright_reports.plots import described, description_of
from tilewright_reports.report import build
from tilewright_reports.sources import Source, raw_sources

# Samples are stored in whole nanoseconds, so a summary of them is a little off.
TOLERANCE = 1e-3

Json = Mapping[str, Any]


def disagreements(folder: Path) -> list[str]:
    """One line for each number or text of the report that its raw data does not give; empty when all agree.

    Raises DataError when there is no raw data.
    """
    sources = raw_sources(folder)
    page = build(sources).page
    return [
        *(line for source in sources.bench for line in _summaries(source)),
        *(line for source in sources.accuracy for line in _shares(source)),
        *(line for source in sources.layers for line in _layers(source)),
        *_page(folder / MARKDOWN, render_markdown(page)),
        *_page(folder / HTML, render_html(page)),
        *(line for figure in page.figures for line in _figure(folder, figure)),
    ]


def _summaries(source: Source) -> Iterator[str]:
    """Median, p10, p90 of every row against its samples, and the ratio of every pair against the blocks."""
    rows = [row for row in source.data["rows"] if row.get("samples_ms")]
    for row in rows:
        p10, median, p90 = np.percentile(row["samples_ms"], (10, 50, 90))
        for name, value in (("median_ms", median), ("p10_ms", p10), ("p90_ms", p90)):
            yield from _differs(
                f"{source.name}: {row['model']} on {row['engine']}: {name}", row[name], float(value)
            )
    for pair, a, b in _sides(rows, source.data.get("pairs") or []):
        if "calls_per_block" in a and "calls_per_block" in b:
            what = f"{source.name}: {pair['model']}: {pair['b']} / {pair['a']}: ratio"
            yield from _differs(what, pair["ratio"], _ratio(a, b))


def _sides(rows: Sequence[Json], pairs: Sequence[Json]) -> Iterator[tuple[Json, Json, Json]]:
    """Each pair with its rows. Rows of an engine that was given twice follow the order of the pairs."""
    left = [*rows]
    for pair in pairs:
        a = next((row for row in rows if _is_of(row, pair, "a")), None)
        b = next((row for row in left if row is not a and _is_of(row, pair, "b")), None)
        if a is not None and b is not None:
            left = [row for row in left if row is not b]
            yield pair, a, b


def _is_of(row: Json, pair: Json, side: str) -> bool:
    return (row["model"], row["engine"]) == (pair["model"], pair[side])


def _layers(source: Source) -> Iterator[str]:
    """Medians of layers alone and of networks against their samples; totals against the rows."""
    for answer in (*(source.data.get("alone") or []), *(source.data.get("networks") or [])):
        if answer.get("samples_ms"):
            where = f"layer {answer['index']}" if "index" in answer else source.data["model"]
            found = float(np.percentile(answer["samples_ms"], 50))
            yield from _differs(
                f"{source.name}: {where} on {answer['engine']}: median_ms", answer["median_ms"], found
            )
    rows = source.data.get("rows") or []
    for total in source.data.get("totals") or []:
        own = [row["median_ms"] for row in rows if total["kind"] in (row["kind"], "all")]
        yield from _differs(f"{source.name}: total of {total['kind']}", total["median_ms"], sum(own))


def _ratio(a: Json, b: Json) -> float:
    """The median over rounds of (block median of b / block median of a)."""
    blocks = [np.reshape(row["samples_ms"], (-1, row["calls_per_block"])) for row in (a, b)]
    rounds = min(len(block) for block in blocks)
    medians_a, medians_b = (np.median(block[:rounds], axis=1) for block in blocks)
    return float(np.median(medians_b / medians_a))


def _shares(source: Source) -> Iterator[str]:
    """The agreement of every pair against its list of flips, and shares against whole numbers of images."""
    counts: dict[str, int] = {}
    for row in source.data["rows"]:
        if row.get("n"):
            counts[row["model"]] = row["n"]
            what = f"{source.name}: {row['model']} on {row['engine']}"
            for name in ("top1", "top5"):
                yield from _differs(f"{what}: {name}", row[name], round(row[name] * row["n"]) / row["n"])
    for pair in source.data.get("pairs") or []:
        n = pair.get("n") or counts.get(pair["model"])
        if n:
            what = f"{source.name}: {pair['model']}: {pair['a']} beside {pair['b']}: agree_top1"
            yield from _differs(what, pair["agree_top1"], 1 - len(pair["flips"]) / n)


def _differs(what: str, stated: float, found: float) -> Iterator[str]:
    if not math.isclose(stated, found, rel_tol=TOLERANCE, abs_tol=1e-9):
        yield f"{what} is {stated:.6g}, its raw data gives {found:.6g}"


def _page(path: Path, expected: str) -> Iterator[str]:
    if not path.is_file():
        yield f"{path} is missing"
        return
    written = path.read_text(encoding="utf-8")
    if written != expected:
        yield f"{path} is not what its raw data gives: {_first_difference(written, expected)}"


def _first_difference(written: str, expected: str) -> str:
    lines: Sequence[str] = [
        line
        for line in difflib.ndiff(written.splitlines(), expected.splitlines())
        if line.startswith(("- ", "+ "))
    ]
    return " / ".join(line[:160] for line in lines[:2]) or "line ends"


def _figure(folder: Path, figure: Figure) -> Iterator[str]:
    """Not byte by byte: another version of matplotlib draws the same numbers with other strokes."""
    path = folder / figure.file
    if not path.is_file():
        yield f"{path} is missing"
    elif description_of(path.read_text(encoding="utf-8")) != described(figure):
        yield f"{path} does not draw the numbers of its raw data"
