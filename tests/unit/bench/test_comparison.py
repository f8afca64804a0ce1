"""Rows and pairs of `bench`, with fake engines: what fails, what is compared, what is kept."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright_bench import comparison
from tilewright_bench.child import measure_cold_start
from tilewright_bench.children import ColdStart
from tilewright_bench.comparison import Request, compare, has_failed
from tilewright_bench.engines.base import Arrays, EngineSpec, Prepared, Settings
from tilewright_bench.engines.registry import parse_engine
from tilewright_bench.measure import Measurement, Plan, measure
from tilewright_bench.models import ModelFile
from tilewright_bench.progress import Reporter
from tilewright_bench.tables import BENCH_HEAD, bench_cells, bench_csv, markdown

ROW = {
    "model", "engine", "precision", "threads", "target", "median_ms", "p10_ms", "p90_ms", "samples_ms",
    "load_s", "first_ms", "peak_rss_mb", "l2_rel_err", "max_abs_err", "provenance",
}  # fmt: skip
PAIR = {"model", "precision", "threads", "a", "b", "ratio", "ci_low", "ci_high", "verdict"}


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch, fake_engines: None) -> None:
    """Cold starts happen in this process (a child knows no fake engines); the reference is y = x."""

    def start(prepared: Prepared, spec: EngineSpec, settings: Settings, seed: int) -> ColdStart:
        request = {
            "engine": spec.text,
            "settings": settings.as_json(),
            "path": str(prepared.path),
            "seed": seed,
        }
        return ColdStart(**measure_cold_start(request))

    def reference(model: Path, inputs: Arrays, dims: Mapping[str, int]) -> Arrays:
        return {"y": inputs["x"].astype(np.float64)}

    monkeypatch.setattr(comparison, "cold_start", start)
    monkeypatch.setattr(comparison, "float64_reference", reference)


def run(model: Path, *engines: str) -> dict[str, Any]:
    plan = Plan(duration_s=0.2, minimum_rounds=2, block_s=0.0005)
    request = Request([ModelFile("tiny", model)], [parse_engine(text) for text in engines], Settings(1), plan)
    with Reporter(quiet=True) as reporter:
        return compare(request, reporter)


def test_rows_and_pairs_have_the_fields_of_the_contract(tiny_model: Path) -> None:
    result = run(tiny_model, "fake", "fake,gain=1.0", "fake,gain=1.5")
    assert not has_failed(result)
    assert [row["engine"] for row in result["rows"]] == ["fake", "fake,gain=1.0", "fake,gain=1.5"]
    assert all(row.keys() >= ROW for row in result["rows"])
    assert all(pair.keys() >= PAIR for pair in result["pairs"])
    assert [(pair["a"], pair["b"]) for pair in result["pairs"]] == [
        ("fake", "fake,gain=1.0"),
        ("fake", "fake,gain=1.5"),
    ]
    provenance = result["rows"][0]["provenance"]
    assert provenance["model_sha256"] == ModelFile("", tiny_model).sha256
    assert provenance.keys() >= {"engine_version", "records_sha256", "ftz"}
    json.dumps(result, allow_nan=False)


def test_the_error_is_that_of_each_engine(tiny_model: Path) -> None:
    exact, wrong = run(tiny_model, "fake", "fake,gain=1.5")["rows"]
    assert exact["l2_rel_err"] == 0
    assert wrong["l2_rel_err"] == pytest.approx(0.5)


@pytest.mark.parametrize("moment", ["load", "run"])
def test_a_failing_engine_leaves_a_row_and_the_rest_goes_on(tiny_model: Path, moment: str) -> None:
    result = run(tiny_model, "fake", f"fake,fails={moment}", "fake,gain=1.0")
    good, failed, other = result["rows"]
    assert "RuntimeError: the fake engine" in failed["error"]
    assert "median_ms" not in failed
    assert "median_ms" in good
    assert "median_ms" in other
    assert [pair["b"] for pair in result["pairs"]] == ["fake,gain=1.0"]
    assert has_failed(result)


def test_precision_classes_are_not_mixed(tiny_model: Path) -> None:
    result = run(tiny_model, "fake", "fake,precision=bf16")
    assert [row["precision"] for row in result["rows"]] == ["fp32", "bf16"]
    assert result["pairs"] == []
    assert result["not_compared"][0]["reason"] == "precision class fp32 against bf16"


def test_a_missing_reference_is_an_error_but_keeps_the_time(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reference(model: Path, inputs: Arrays, dims: Mapping[str, int]) -> Arrays:
        raise ValueError("no such operator")

    monkeypatch.setattr(comparison, "float64_reference", reference)
    result = run(tiny_model, "fake")
    assert "no float64 reference: ValueError: no such operator" in result["rows"][0]["error"]
    assert "median_ms" in result["rows"][0]
    assert has_failed(result)


def test_interruption_keeps_what_was_measured(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Measurement:
        measurement = measure(*arguments, **options)
        measurement.interrupted = True
        return measurement

    monkeypatch.setattr(comparison, "measure", interrupted)
    result = run(tiny_model, "fake", "fake,gain=1.0")
    assert result["interrupted"]
    assert len(result["rows"]) == 2
    assert len(result["pairs"]) == 1
    assert has_failed(result)


def test_tables_show_every_row(tiny_model: Path) -> None:
    result = run(tiny_model, "fake", "fake,fails=load", "fake,gain=1.0")
    cells = bench_cells(result)
    assert [len(line) for line in cells] == [len(BENCH_HEAD)] * 3
    assert bench_csv(result).count("\n") == 4
    assert markdown(BENCH_HEAD, cells).count("\n") == 5
