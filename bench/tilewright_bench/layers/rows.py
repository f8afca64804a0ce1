"""Layers and leftovers as rows of JSON values, and their totals by kind."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright_bench.engines.base import Step
from tilewright_bench.layers.floors import Ceilings, floor_of, unit_of
from tilewright_bench.layers.steps import Layer, TimedStep
from tilewright_bench.layers.submodels import Submodel

Json = dict[str, Any]

# The operator that gives a layer its name, however many others are fused to it.
HEAVY = (
    *("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Attention", "Einsum"),
    *("ConvInteger", "QLinearConv", "MatMulInteger", "QLinearMatMul"),
)
_DIGEST = re.compile(r"_[0-9a-f]{12}$")


def layer_row(index: int, layer: Layer, cut: Submodel | None, ceilings: Ceilings) -> Json:
    """A layer of the model: its nodes, what it does and takes, and how that compares with its floor."""
    ops = () if cut is None else cut.ops
    return {
        "index": index,
        "nodes": list(layer.nodes),
        "ops": list(ops),
        "kind": main_kind(ops) if ops else kernel_kind(layer.steps[0].step.name),
        **_figures(layer.steps, None if cut is None else cut.flops, ceilings),
    }


def leftover_row(index: int, timed: TimedStep, ceilings: Ceilings) -> Json:
    """A step that belongs to no layer: a change of storage or a copy that the compiler put in."""
    kind = kernel_kind(timed.step.name)
    return {"index": index, "nodes": [], "ops": [], "kind": kind, **_figures([timed], None, ceilings)}


def main_kind(ops: Sequence[str]) -> str:
    """The operator that a layer is called after."""
    return next((op for op in ops if op in HEAVY), ops[0])


def kernel_kind(name: str) -> str:
    """What a kernel's or copy's name says it does, in small letters: pack, unpack, copy, ..."""
    return _DIGEST.sub("", name.partition(" ")[0])


def totals(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """One row per kind, longest first, then all together; `share` is of the time of all steps."""
    whole = sum(row["median_ms"] for row in rows)
    kinds = dict.fromkeys(row["kind"] for row in rows)
    found = [_total(kind, [row for row in rows if row["kind"] == kind], whole) for kind in kinds]
    return [*sorted(found, key=lambda row: -row["median_ms"]), _total("all", rows, whole)]


def _total(kind: str, rows: Sequence[Mapping[str, Any]], whole: float) -> Json:
    time, floor = _sum(rows, "median_ms"), _sum(rows, "floor_ms")
    return {
        "kind": kind,
        "count": len(rows),
        "median_ms": time,
        "share": time / whole,
        "flops": sum(row["flops"] for row in rows),
        "int_ops": sum(row["int_ops"] for row in rows),
        "bytes": sum(row["bytes"] for row in rows),
        "floor_ms": floor,
        "of_floor": floor / time,
    }


def _sum(rows: Iterable[Mapping[str, Any]], field: str) -> float:
    return float(sum(row[field] for row in rows))


def _figures(steps: Sequence[TimedStep], needed: int | None, ceilings: Ceilings) -> Json:
    """Medians and percentiles of several steps are added up. What the result needs counts as `flops` or as
    `int_ops`, whichever kind most of the executed operations are.
    """
    parts = [timed.step for timed in steps]
    seconds = sum(timed.ms.median for timed in steps) / 1e3
    moved = sum(part.bytes for part in parts)
    executed_flops, executed_ints = sum(p.flops for p in parts), sum(p.int_ops for p in parts)
    flops, int_ops = executed_flops, executed_ints
    if needed is not None:
        flops, int_ops = (0, needed) if executed_ints > executed_flops else (needed, 0)
    floor = floor_of(parts, needed, ceilings)
    unit, rate = unit_of(parts, ceilings)
    gops = (flops + int_ops) / seconds / 1e9
    return {
        "kernels": [_kernel(timed) for timed in steps],
        "unit": unit,
        "flops": flops,
        "int_ops": int_ops,
        "executed_flops": executed_flops,
        "executed_int_ops": executed_ints,
        "bytes": moved,
        "median_ms": 1e3 * seconds,
        "p10_ms": sum(timed.ms.p10 for timed in steps),
        "p90_ms": sum(timed.ms.p90 for timed in steps),
        "gflops": flops / seconds / 1e9,
        "gops": gops,
        "gb_per_s": moved / seconds / 1e9,
        "intensity": (flops + int_ops) / moved if moved else 0.0,
        "of_unit": None if rate is None else gops / rate,
        "floor_ms": floor.ms,
        "bound": floor.bound,
        "of_floor": floor.ms / (1e3 * seconds),
    }


def _kernel(timed: TimedStep) -> Json:
    step: Step = timed.step
    return {
        "name": step.name,
        "template": step.template,
        "times": step.times,
        "footprint": step.footprint,
        "median_ms": timed.ms.median,
    }
