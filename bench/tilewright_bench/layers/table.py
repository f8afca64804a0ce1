"""The result of `tilewright layers` as tables and as CSV."""

import csv
import io
from collections.abc import Mapping
from typing import Any

from tilewright_bench.tables import verdict

Result = Mapping[str, Any]

HEAD = (
    "layer",
    "kind",
    "template",
    "ms",
    "%",
    "Gop/s",
    "MB",
    "% of unit",
    "floor ms",
    "% of floor",
    "bound",
)
TOTAL_HEAD = ("kind", "count", "ms", "%", "Gop", "MB", "floor ms", "% of floor")
NETWORK_HEAD = ("engine", "class", "median ms", "p10–p90", "time / first engine's", "verdict on the first")
CSV_FIELDS = (
    "model", "engine", "threads", "index", "kind", "nodes", "kernels", "template", "flops", "int_ops",
    "bytes", "median_ms", "p10_ms", "p90_ms", "gflops", "gops", "gb_per_s", "intensity", "unit", "of_unit",
    "floor_ms", "bound", "of_floor", "same_as",
)  # fmt: skip


def layer_table(result: Result) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and cells: layers, then leftovers, inside the network; and every engine's time for it alone."""
    engines = _engines(result)
    whole = sum(row["median_ms"] for row in result["rows"])
    tellers = list(dict.fromkeys(row["engine"] for row in result["inside"]))
    told = {(row["index"], row["engine"]): row["median_ms"] for row in result["inside"]}
    head = (
        *HEAD,
        *(f"{engine} inside ms" for engine in tellers),
        *(f"{engine} alone ms" for engine in engines),
    )
    cells = [
        (
            *_cells(row, whole),
            *(_time(told.get((row["index"], engine))) for engine in tellers),
            *_alone(result, row, engines),
        )
        for row in result["rows"]
    ]
    return head, cells


def total_cells(result: Result) -> list[tuple[str, ...]]:
    """The cells below `TOTAL_HEAD`."""
    return [
        (
            row["kind"],
            str(row["count"]),
            f"{row['median_ms']:.3f}",
            f"{100 * row['share']:.1f}",
            f"{(row['flops'] + row['int_ops']) / 1e9:.3f}",
            f"{row['bytes'] / 1e6:.2f}",
            f"{row['floor_ms']:.3f}",
            f"{100 * row['of_floor']:.0f}",
        )
        for row in result["totals"]
    ]


def network_cells(result: Result) -> list[tuple[str, ...]]:
    """The cells below `NETWORK_HEAD`."""
    cells: list[tuple[str, ...]] = []
    for row in result["networks"]:
        if "median_ms" not in row:
            cells.append((row["engine"], "", "", "", "", row.get("error", "")))
            continue
        ratio = f"{row['ratio']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}]" if "ratio" in row else ""
        spread = f"{row['p10_ms']:.3f}–{row['p90_ms']:.3f}"
        cells.append(
            (
                row["engine"],
                row["precision"],
                f"{row['median_ms']:.3f}",
                spread,
                ratio,
                verdict(row["verdict"], _pairs(row)) if "verdict" in row else "",
            )
        )
    return cells


def title(result: Result) -> str:
    """What the tables show: model, class of precision, threads, and the ceilings."""
    classes = ", ".join(dict.fromkeys(row["precision"] for row in result["rows"]))
    return f"{result['model']} in {classes}: {_ceiling_line(result)}"


def _ceiling_line(result: Result) -> str:
    """The ceilings in one line."""
    ceilings = result["ceilings"]
    read = ", ".join(f"{_size(point['bytes'])} {point['gb_per_s']:.0f}" for point in ceilings["read"])
    rates = ", ".join(f"{unit} {rate:.0f}" for unit, rate in ceilings["units"].items())
    return f"ceilings at {ceilings['threads']} thread(s): {rates} Gop/s; reading {read} GB/s"


def layer_csv(result: Result) -> str:
    """A line per layer and leftover; two columns for every engine that was asked."""
    engines = _engines(result)
    text = io.StringIO()
    fields = [*CSV_FIELDS, *(f"{engine} {what}" for engine in engines for what in ("alone_ms", "ratio"))]
    writer = csv.DictWriter(text, fields, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in result["rows"]:
        line = {**row, "nodes": " ".join(row["nodes"]), "template": row["kernels"][0]["template"]}
        line["kernels"] = " ".join(kernel["name"] for kernel in row["kernels"])
        for engine, answer in _answers(result, row).items():
            line |= {f"{engine} alone_ms": answer.get("median_ms"), f"{engine} ratio": answer.get("ratio")}
        writer.writerow(line)
    return text.getvalue()


def _cells(row: Result, whole: float) -> tuple[str, ...]:
    return (
        _name(row),
        row["kind"],
        row["kernels"][0]["template"],
        f"{row['median_ms']:.4f}",
        f"{100 * row['median_ms'] / whole:.1f}",
        f"{row['gops']:.1f}",
        f"{row['bytes'] / 1e6:.2f}",
        "" if row["of_unit"] is None else f"{100 * row['of_unit']:.0f}",
        f"{row['floor_ms']:.4f}",
        f"{100 * row['of_floor']:.0f}",
        row["bound"],
    )


def _name(row: Result) -> str:
    """The first node, and how many are fused to it; all of them are in the JSON and the CSV."""
    nodes = row["nodes"]
    if not nodes:
        return str(row["kernels"][0]["name"])
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} +{len(nodes) - 1}"


def _pairs(row: Result) -> int:
    """Block pairs behind a ratio: whole blocks of the row."""
    return int(len(row["samples_ms"]) // row["calls_per_block"])


def _time(ms: float | None) -> str:
    return "" if ms is None else f"{ms:.4f}"


def _alone(result: Result, row: Result, engines: list[str]) -> list[str]:
    answers = _answers(result, row)
    return [_answer(answers.get(engine)) for engine in engines]


def _answer(answer: Result | None) -> str:
    if answer is None:
        return ""
    if "median_ms" not in answer:
        return "failed"
    ratio = f" ({answer['ratio']:.2f}×)" if "ratio" in answer else ""
    return f"{answer['median_ms']:.4f}{ratio}"


def _answers(result: Result, row: Result) -> dict[str, Result]:
    """What each engine took for the layer alone, by engine; equal layers share it."""
    if row.get("same_as") is None:
        return {}
    return {answer["engine"]: answer for answer in result["alone"] if answer["index"] == row["same_as"]}


def _engines(result: Result) -> list[str]:
    return list(dict.fromkeys(answer["engine"] for answer in result["alone"]))


def _size(count: int) -> str:
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.0f} MB"
