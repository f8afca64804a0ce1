"""Layers: a network by its own report against the machine, beside other engines; and the roofline of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright_reports.cells import milliseconds, number, table
from tilewright_reports.machines import bench_machine
from tilewright_reports.page import Figure, Section, Table
from tilewright_reports.provenance import missing_provenance
from tilewright_reports.results import LeftOut
from tilewright_reports.sources import Source

Json = Mapping[str, Any]

NOTE = (
    "ms is the median inside the running network; GFLOP/s counts what the result needs. The floor is the "
    "slower of two: those operations at the measured rate of multiply-adds, and the bytes of all operands at "
    "the measured rate of reading. alone is the same layer as a model of its own, host array in, host array "
    "out, in interleaved blocks, with its ratio to the first engine; inside is what an engine's own "
    "profiler says of it."
)
NEEDED = ("model_sha256", "engine_version")


def layer_sections(sources: Sequence[Source], left_out: list[LeftOut]) -> Iterator[Section]:
    """For each file its layers with the roofline, the totals by kind, and the whole network.

    A file without its origin is left out.
    """
    for count, source in enumerate(sources, 1):
        data = source.data
        reason = _unreportable(data)
        if reason:
            left_out.append(LeftOut(source.name, f"layers of {data.get('model')}", reason))
            continue
        threads = data["ceilings"]["threads"]
        where = f"{threads} thread{'' if threads == 1 else 's'}, on {bench_machine(data['environment'])}"
        figure = Figure(
            f"roofline-{count}.svg",
            f"Roofline of {data['model']}, {threads} thread(s)",
            "roofline",
            _roofline(data),
        )
        notes = [NOTE, _ceilings(data["ceilings"]), f"From {source.name}."]
        yield Section(
            f"Layers of {data['model']} in {_classes(data)}: {where}", notes, _layer_table(data), figure
        )
        yield Section(f"{data['model']} by kind of layer", [], _totals_table(data["totals"]), level=3)
        yield Section(f"{data['model']} as a whole", [], _network_table(data["networks"]), level=3)


def _unreportable(data: Json) -> str | None:
    missing = [name for name in ("ceilings", "rows", "totals", "networks", "alone") if not data.get(name)]
    if missing:
        return f"incomplete: without {', '.join(missing)}"
    for row in data["networks"]:
        if "median_ms" in row:
            missing += missing_provenance(row, data.get("environment") or {}, NEEDED)
    missing = list(dict.fromkeys(missing))
    return f"provenance is not complete: without {', '.join(missing)}" if missing else None


def _classes(data: Json) -> str:
    """The class of precision in which the first engine ran the network."""
    return ", ".join(dict.fromkeys(row["precision"] for row in data["rows"]))


def _ceilings(ceilings: Json) -> str:
    read = ", ".join(
        f"{number(point['gb_per_s'], 0)} GB/s at {number(point['bytes'] / 1e6, 2)} MB"
        for point in ceilings["read"]
    )
    if _names_units(ceilings):
        rates = ", ".join(f"{unit} {number(rate, 0)}" for unit, rate in ceilings["units"].items())
        told = f"{rates} Gop/s, each layer held against the unit that does its products"
    else:
        told = f"{number(ceilings['fma_gflops'], 0)} GFLOP/s of fp32 multiply-adds"
    return f"Measured ceilings: {told}; reading {read}."


def _names_units(ceilings: Json) -> bool:
    """Whether a file tells units apart; older ones hold every layer against fp32 multiply-adds."""
    return "units" in ceilings


def _layer_table(data: Json) -> Table:
    engines = list(dict.fromkeys(answer["engine"] for answer in data["alone"]))
    answers = {(answer["index"], answer["engine"]): answer for answer in data["alone"]}
    told = {(row["index"], row["engine"]): row["median_ms"] for row in data.get("inside") or []}
    tellers = list(dict.fromkeys(engine for _, engine in told))
    units = _names_units(data["ceilings"])
    head = (
        "layer",
        "kind",
        "template",
        "ms",
        "Gop/s" if units else "GFLOP/s",
        "MB",
        "% of unit" if units else "% of multiply-adds",
        "floor ms",
        "% of floor",
    )
    cells = [
        (
            _name(row),
            row["kind"],
            row["kernels"][0]["template"],
            milliseconds(row["median_ms"]),
            number(row["gops" if units else "gflops"], 1),
            number(row["bytes"] / 1e6, 2),
            number(None if row["of_unit"] is None else 100 * row["of_unit"], 0),
            milliseconds(row["floor_ms"]),
            number(100 * row["of_floor"], 0),
            *(milliseconds(told.get((row["index"], engine))) for engine in tellers),
            *(_answer(answers.get((row.get("same_as"), engine))) for engine in engines),
        )
        for row in data["rows"]
    ]
    told_head = (f"{engine} inside ms" for engine in tellers)
    return table(
        (*head, *told_head, *(f"{engine} alone ms" for engine in engines)),
        cells,
        ("layer", "kind", "template"),
    )


def _answer(answer: Json | None) -> str:
    if answer is None:
        return ""
    if "median_ms" not in answer:
        return "failed"
    ratio = f" ({number(answer['ratio'], 2)}×)" if "ratio" in answer else ""
    return milliseconds(answer["median_ms"]) + ratio


def _totals_table(totals: Sequence[Json]) -> Table:
    cells = [
        (
            row["kind"],
            str(row["count"]),
            milliseconds(row["median_ms"]),
            number(100 * row["share"], 1),
            number((row["flops"] + row.get("int_ops", 0)) / 1e9, 3),
            milliseconds(row["floor_ms"]),
            number(100 * row["of_floor"], 0),
        )
        for row in totals
    ]
    work = "Gop" if any("int_ops" in row for row in totals) else "GFLOP"  # older files count no integers
    return table(("kind", "count", "ms", "%", work, "floor ms", "% of floor"), cells, ("kind",))


def _network_table(networks: Sequence[Json]) -> Table:
    cells = [
        (
            row["engine"],
            row.get("precision", ""),
            milliseconds(row.get("median_ms")),
            milliseconds(row.get("p10_ms")),
            milliseconds(row.get("p90_ms")),
            number(row.get("ratio"), 3),
            row.get("verdict", ""),
            row.get("error", ""),
        )
        for row in networks
    ]
    head = ("engine", "class", "median ms", "p10", "p90", "ratio to first", "the first is", "error")
    return table(head, cells, ("engine", "class", "the first is", "error"))


def _roofline(data: Json) -> dict[str, Any]:
    """Points of layers that compute; equal layers each have theirs."""
    points = [
        {"name": _name(row), "kind": row["kind"], "intensity": row["intensity"], "gflops": row["gflops"]}
        for row in data["rows"]
        if row["flops"] and row["intensity"]
    ]
    return {"fma_gflops": data["ceilings"]["fma_gflops"], "read": data["ceilings"]["read"], "points": points}


def _name(row: Json) -> str:
    return "+".join(row["nodes"]) or row["kernels"][0]["name"]
