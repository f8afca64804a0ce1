"""What other engines' own profilers say, laid beside our layers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright_bench.engines.base import Arrays, Engine, EngineSpec, Profiled, Settings
from tilewright_bench.layers.submodels import Whole

Json = dict[str, Any]
RUNS = 20


def profiled(
    engines: Mapping[str, Engine],
    specs: Sequence[EngineSpec],
    model: Path,
    settings: Settings,
    inputs: Arrays,
    folder: Path,
) -> dict[str, Sequence[Profiled]]:
    """The profile of every engine that has a profiler, by the engine's text."""
    found: dict[str, Sequence[Profiled]] = {}
    for spec in specs:
        engine = engines[spec.text]
        if type(engine).profile is Engine.profile:
            continue
        parts = engine.profile(engine.prepare(model, spec, settings, folder), spec, settings, inputs, RUNS)
        if parts is not None:
            found[spec.text] = parts
    return found


def inside_rows(engine: str, parts: Sequence[Profiled], whole: Whole, rows: Sequence[Json]) -> list[Json]:
    """One row for each layer that kernels of the engine belong to, by `index`; kernels of no layer, such as
    its changes of storage, together in a row whose index is None.
    """
    places = {node: row["index"] for row in rows for node in row["nodes"]}
    times: dict[int | None, float] = {}
    for part in parts:
        owner = whole.owner(part.names)
        index = None if owner is None else places.get(owner)
        times[index] = times.get(index, 0.0) + part.ms
    return [
        {"index": index, "method": "profiler", "engine": engine, "median_ms": ms}
        for index, ms in times.items()
    ]
