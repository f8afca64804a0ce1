"""`tilewright layers` from end to end, on a small network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.cli.main import load_commands, run


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("layers")
    load_commands()
    engines = ["--engine", "tilewright:cpu", "--engine", "ort"]
    files = ["--json", str(folder / "l.json"), "--csv", str(folder / "l.csv"), "--md", str(folder / "l.md")]
    options = ["--threads", "1", "--duration", "0.1", "--cache-dir", str(folder / "cache"), "-q"]
    assert run(["layers", "dqn", *engines, *files, *options]) == 0
    assert "ceilings" in (folder / "l.md").read_text()
    return dict(json.loads((folder / "l.json").read_text()))


def test_every_layer_has_a_floor_and_an_answer_of_each_engine(result: dict) -> None:
    layers = [row for row in result["rows"] if row["nodes"]]
    assert [row["nodes"][0] for row in layers] == ["conv1", "conv2", "conv3", "fc1", "fc2"]
    for row in layers:
        assert row["median_ms"] > 0
        assert row["floor_ms"] > 0
        answers = [one for one in result["alone"] if one["index"] == row["same_as"]]
        assert [one["engine"] for one in answers] == ["tilewright:cpu", "ort"]
        assert all(one["median_ms"] > 0 for one in answers)
        assert "ratio" in answers[1]


def test_the_profile_of_the_other_engine_finds_its_layers(result: dict) -> None:
    told = {row["index"] for row in result["inside"] if row["engine"] == "ort"}
    assert {0, 1, 2, 3, 4} <= told


def test_what_the_compiler_added_is_listed_too(result: dict) -> None:
    added = [row["kind"] for row in result["rows"] if not row["nodes"]]
    assert "pack" in added
    whole = result["totals"][-1]
    assert whole["kind"] == "all"
    assert whole["median_ms"] == pytest.approx(sum(row["median_ms"] for row in result["rows"]))


def test_the_whole_network_stands_beside_its_layers(result: dict) -> None:
    assert [row["engine"] for row in result["networks"]] == ["tilewright:cpu", "ort"]
    assert all(row["provenance"]["model_sha256"] for row in result["networks"])
    assert result["ceilings"]["fma_gflops"] > 0


def test_an_engine_that_does_not_report_cannot_come_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    load_commands()
    assert run(["layers", "dqn", "--engine", "ort", "--threads", "1", "-q"]) == 2
    assert "does not report" in capsys.readouterr().err
