"""The measurement behind `tilewright layers`: the network by its own report, then each layer alone, side by
side.
"""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

import tilewright as tw
from tilewright.errors import CacheError
from tilewright_bench.affinity import pinned
from tilewright_bench.engines.base import Arrays, Engine, EngineSpec, Session, Settings
from tilewright_bench.engines.registry import engine_of
from tilewright_bench.environment import describe
from tilewright_bench.inputs import seeded_inputs
from tilewright_bench.layers.floors import as_json
from tilewright_bench.layers.profiles import inside_rows, profiled
from tilewright_bench.layers.rows import layer_row, leftover_row, main_kind, totals
from tilewright_bench.layers.steps import grouped, traced
from tilewright_bench.layers.submodels import Submodel, Whole
from tilewright_bench.measure import Measurement, Plan, measure
from tilewright_bench.models import ModelFile
from tilewright_bench.progress import Reporter
from tilewright_bench.statistics import Ratio, summarise

Json = dict[str, Any]
log = logging.getLogger(__name__)

METHOD = "single-layer model"


@dataclass(frozen=True)
class Request:
    """The first engine reports its layers; all engines are asked for each of them as a model of its own."""

    model: ModelFile
    engines: Sequence[EngineSpec]
    settings: Settings
    plan: Plan


def measure_layers(request: Request, reporter: Reporter) -> Json:
    """Everything that docs/bench.md describes under `layers`.

    An engine that fails on a layer leaves an `error` there. Ctrl-C keeps the layers that are complete.
    Raises UsageError when an engine is not available or the first one does not report its layers.
    """
    engines = {spec.text: engine_of(spec) for spec in request.engines}
    result: Json = {"model": request.model.name, "interrupted": False}
    with (
        tempfile.TemporaryDirectory(prefix="tilewright-layers-") as name,
        pinned(request.settings.threads) as affinity,
    ):
        result["environment"] = describe(affinity, request.settings.threads)
        reporter.stage("ceilings of this machine")
        ceilings = tw.measure_ceilings(request.settings.threads)
        result["ceilings"] = as_json(ceilings)
        first = request.engines[0]
        reporter.stage(f"{request.model.name}: {first.text}: a trace of the whole network")
        folder = Path(name)
        session = _load(engines[first.text], first, request.model.path, request.settings, folder)
        inputs = seeded_inputs(session.inputs, request.plan.seed)
        steps = traced(session, inputs, first.text)
        whole = Whole(request.model.path, request.settings.dims)
        layers, leftovers = grouped(steps, whole.names)
        origin = _origin(request, session)
        rows: list[Json] = []
        cuts: dict[int, Submodel | str] = {}
        for index, layer in enumerate(layers):
            cuts[index] = _cut(whole, layer.nodes)
            cut = cuts[index]
            rows.append(
                origin | layer_row(index, layer, cut if isinstance(cut, Submodel) else None, ceilings)
            )
        rows += [
            origin | leftover_row(len(layers) + number, timed, ceilings)
            for number, timed in enumerate(leftovers)
        ]
        result |= {"rows": rows, "totals": totals(rows), "networks": [], "alone": [], "inside": []}
        try:
            result["networks"] = _networks(request, engines, session, inputs, folder, reporter)
            reporter.stage(f"{request.model.name}: other engines' own profilers")
            found = profiled(engines, request.engines, request.model.path, request.settings, inputs, folder)
            for engine, parts in found.items():
                result["inside"] += inside_rows(engine, parts, whole, rows)
            _ask_all(request, engines, cuts, result, folder, reporter)
        except KeyboardInterrupt:
            result["interrupted"] = True
    return result


def has_failed(result: Mapping[str, Any]) -> bool:
    """Whether an engine failed on a layer or the run was interrupted: exit code 1."""
    asked = (*result["alone"], *result["networks"])
    return result["interrupted"] or any("error" in row for row in asked)


def _origin(request: Request, session: Session) -> Json:
    return {
        "model": request.model.name,
        "engine": request.engines[0].text,
        "precision": session.precision,
        "threads": request.settings.threads,
    }


def _cut(whole: Whole, nodes: Sequence[str]) -> Submodel | str:
    """The layer as a model, or why there is none."""
    try:
        return whole.cut(nodes)
    except Exception as error:  # whatever ONNX finds wrong with the part is the reason that the result states
        log.debug("%s", nodes, exc_info=error)
        return f"{type(error).__name__}: {error}"


def _load(engine: Engine, spec: EngineSpec, path: Path, settings: Settings, folder: Path) -> Session:
    return engine.load(engine.prepare(path, spec, settings, folder), spec, settings)


def _networks(
    request: Request,
    engines: Mapping[str, Engine],
    session: Session,
    inputs: Arrays,
    folder: Path,
    reporter: Reporter,
) -> list[Json]:
    """The whole network on every engine, to see what calls, copies and other kernels' leavings cost."""
    reporter.stage(f"{request.model.name}: the whole network")
    rows = _beside(request, engines, request.model.path, inputs, {request.engines[0].text: session}, folder)
    model = {"model": request.model.name, "threads": request.settings.threads}
    return [model | row | {"provenance": _provenance(request.model, engines[row["engine"]])} for row in rows]


def _provenance(model: ModelFile, engine: Engine) -> Json:
    return {"model_sha256": model.sha256, "engine_version": engine.availability().version}


def _ask_all(
    request: Request,
    engines: Mapping[str, Engine],
    cuts: Mapping[int, Submodel | str],
    result: Json,
    folder: Path,
    reporter: Reporter,
) -> None:
    """Each kind of layer once; layers of equal operators and shapes share the answer."""
    asked: dict[str, int] = {}
    for index, cut in cuts.items():
        row = result["rows"][index]
        if isinstance(cut, str):
            row["not_asked"] = cut
            continue
        row["same_as"] = asked.setdefault(cut.key, index)
        if row["same_as"] != index:
            continue
        reporter.stage(f"layer {index + 1} of {len(cuts)}: {main_kind(cut.ops)} alone")
        path = folder / f"layer-{index}.onnx"
        onnx.save(cut.model, path)
        rows = _beside(request, engines, path, None, {}, folder)
        result["alone"] += [{"index": index, "method": METHOD, **row} for row in rows]


def _beside(
    request: Request,
    engines: Mapping[str, Engine],
    path: Path,
    inputs: Arrays | None,
    loaded: Mapping[str, Session],
    folder: Path,
) -> list[Json]:
    """One model on all engines in interleaved blocks; a ratio is an engine's time over the first engine's."""
    rows: list[Json] = []
    running: list[tuple[Json, Session]] = []
    for spec in request.engines:
        row: Json = {"engine": spec.text}
        rows.append(row)
        try:
            session = loaded.get(spec.text) or _load(engines[spec.text], spec, path, request.settings, folder)
            inputs = inputs or seeded_inputs(session.inputs, request.plan.seed)
            session.run(inputs)
        except CacheError:
            raise  # nothing else would work either
        except Exception as error:  # whatever an engine raises belongs into its row
            log.debug("%s on %s", spec.text, path, exc_info=error)
            row["error"] = f"{type(error).__name__}: {error}"
            continue
        row["precision"] = session.precision
        running.append((row, session))
    if running and inputs is not None:
        given = inputs
        calls = [lambda session=session: session.run(given) for _, session in running]
        measurement = measure(calls, request.plan)
        if measurement.interrupted:
            raise KeyboardInterrupt
        _fill([row for row, _ in running], measurement, request.engines[0].text)
    return rows


def _fill(rows: Sequence[Json], measurement: Measurement, first: str) -> None:
    for row, samples in zip(rows, measurement.samples, strict=True):
        summary = summarise(samples.all_ms)
        row |= {"median_ms": summary.median, "p10_ms": summary.p10, "p90_ms": summary.p90}
        row |= {
            "samples_ms": [round(sample, 6) for sample in samples.all_ms],
            "calls_per_block": samples.calls_per_block,
        }
    if rows[0]["engine"] != first:  # it failed: there is nothing to compare with
        return
    for row, ratio in zip(rows[1:], measurement.ratios, strict=True):
        if row["precision"] == rows[0]["precision"]:
            row |= _ratio(ratio)


def _ratio(ratio: Ratio) -> Json:
    return {"ratio": ratio.value, "ci_low": ratio.low, "ci_high": ratio.high, "verdict": ratio.verdict}
