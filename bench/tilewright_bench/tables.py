"""Results as tables: for a terminal, as CSV, as Markdown."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tilewright_bench.statistics import MINIMUM_PAIRS

Row = Mapping[str, Any]

CSV_FIELDS = (
    "model", "engine", "precision", "threads", "target", "median_ms", "p10_ms", "p90_ms", "compile_s",
    "load_s", "first_ms", "peak_rss_mb", "l2_rel_err", "max_abs_err", "ratio", "ci_low", "ci_high",
    "verdict", "capped", "batch", "concurrency", "images_per_s", "error",
)  # fmt: skip

# A pipe has no width, and a folded table is of no use to grep.
PIPED_WIDTH = 200

BENCH_HEAD = (
    "model", "engine", "class", "threads", "median ms", "p10–p90", "first ms", "load s", "compile s",
    "peak MB", "rel. error", "images/s", "time / first engine's", "verdict on the first",
)  # fmt: skip

# Columns of words; all others are numbers.
WORDS = (
    *("model", "engine", "targets", "version", "options", "verdict on the first"),
    *("layer", "kind", "template", "bound", "class"),
)

ACCURACY_HEAD = (
    "model",
    "engine",
    "class",
    "images",
    "top-1",
    "95 % interval",
    "top-5",
    "same top-1",
    "flips",
)


def bench_csv(result: Row) -> str:
    """One line per row of a bench result, with its pair's figures where it is the second of a pair."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_FIELDS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row, pair in _with_pairs(result):
        writer.writerow(
            {**row, **{key: pair[key] for key in ("ratio", "ci_low", "ci_high", "verdict") if pair}}
        )
    return text.getvalue()


def bench_cells(result: Row) -> list[tuple[str, ...]]:
    """The cells of the bench table below `BENCH_HEAD`."""
    return [_bench_row(row, pair) for row, pair in _with_pairs(result)]


def accuracy_cells(result: Row) -> list[tuple[str, ...]]:
    """The cells of the accuracy table below `ACCURACY_HEAD`."""
    cells: list[tuple[str, ...]] = []
    for row, pair in _with_pairs(result):
        names = (row["model"], row["engine"], row["precision"])
        if "error" in row:
            cells.append((*names, *[""] * (len(ACCURACY_HEAD) - len(names) - 1), row["error"]))
            continue
        low, high = row["top1_ci"]
        agree = (f"{pair['agree_top1']:.4f}", str(len(pair["flips"]))) if pair else ("", "")
        figures = (str(row["n"]), f"{row['top1']:.4f}", f"{low:.3f}–{high:.3f}", f"{row['top5']:.4f}")
        cells.append((*names, *figures, *agree))
    return cells


def verdict(found: str, pairs: int) -> str:
    """A verdict for readers: it says where there were too few pairs of blocks for any."""
    return found if pairs >= MINIMUM_PAIRS else f"too few pairs ({pairs} of {MINIMUM_PAIRS})"


def markdown(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *cells]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def show(title: str, head: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout."""
    table = Table(title=title, title_justify="left")
    for name in head:
        table.add_column(name, justify="left" if name in WORDS else "right", overflow="fold")
    for line in cells:
        table.add_row(*line)
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    console.print(table, markup=False)


def _bench_row(row: Row, pair: Row | None) -> tuple[str, ...]:
    names = (row["model"], row["engine"], row["precision"], str(row["threads"]))
    if "median_ms" not in row:
        return (*names, *[""] * (len(BENCH_HEAD) - len(names) - 1), row["error"])
    compile_s = "" if row.get("compile_s") is None else f"{row['compile_s']:.2f}"
    ratio = f"{pair['ratio']:.3f} [{pair['ci_low']:.3f}, {pair['ci_high']:.3f}]" if pair else ""
    capped = " (capped)" if pair and pair["capped"] else ""
    judged = row.get("error") or (verdict(pair["verdict"], pair["block_pairs"]) + capped if pair else "")
    return (
        *names,
        f"{row['median_ms']:.3f}",
        f"{row['p10_ms']:.3f}–{row['p90_ms']:.3f}",
        f"{row['first_ms']:.1f}",
        f"{row['load_s']:.3f}",
        compile_s,
        f"{row['peak_rss_mb']:.0f}",
        f"{row['l2_rel_err']:.1e}" if "l2_rel_err" in row else "",
        f"{row['images_per_s']:.1f}" if "images_per_s" in row else "",
        ratio,
        judged,
    )


def _with_pairs(result: Row) -> Iterator[tuple[Row, Row | None]]:
    """Each row with the pair that it is the second of: none for the first engine that has figures. An engine
    that was given twice has a row for each, in the order of the pairs.
    """
    left = [*result["pairs"]]
    compared_with: set[str] = set()
    for row in result["rows"]:
        model = row["model"]
        if model not in compared_with:
            if "median_ms" in row or "top1" in row:
                compared_with.add(model)
            yield row, None
            continue
        found = next((pair for pair in left if (pair["model"], pair["b"]) == (model, row["engine"])), None)
        if found is not None:
            left.remove(found)
        yield row, found
