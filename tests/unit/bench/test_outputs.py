"""What becomes of results when a file cannot be written or a run is interrupted."""

import csv
import errno
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tilewright.errors import UsageError
from tilewright_bench import bench_command
from tilewright_bench.cli import register
from tilewright_bench.layers.table import network_cells, title
from tilewright_bench.outputs import Outputs
from tilewright_bench.results import check_writable, write_text
from tilewright_bench.tables import bench_cells, bench_csv

TIMED = {"median_ms": 2.0, "p10_ms": 1.0, "p90_ms": 3.0, "samples_ms": [2.0] * 8, "calls_per_block": 2}
RATIO = {"ratio": 1.284, "ci_low": 1.129, "ci_high": 1.329, "verdict": "no difference"}


def bench_result(interrupted: bool = False, block_pairs: int = 20) -> dict[str, Any]:
    cold = {"first_ms": 1.0, "load_s": 0.1, "peak_rss_mb": 90.0}
    names = {"model": "dqn", "precision": "fp32", "threads": 1}
    rows = [names | cold | TIMED | {"engine": engine} for engine in ("tilewright:cpu", "ort")]
    pair = names | RATIO | {"a": "tilewright:cpu", "b": "ort", "capped": False, "block_pairs": block_pairs}
    return {"environment": {}, "rows": rows, "pairs": [pair], "interrupted": interrupted}


@pytest.fixture
def run_bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, with a measurement that is done at once."""

    def run(result: dict[str, Any], *options: str) -> Any:
        monkeypatch.setattr(bench_command, "compare", lambda *_: result)
        application = typer.Typer()
        register(application)
        return CliRunner().invoke(application, ["bench", "dqn", "-q", *options])

    return run


def test_a_full_disk_takes_neither_the_table_nor_the_other_files(run_bench: Any, tmp_path: Path) -> None:
    written = tmp_path / "a.csv"
    done = run_bench(bench_result(), "--json", "/dev/full", "--csv", str(written))
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "cannot write /dev/full: No space left on device"
    assert "1.284 [1.129, 1.329]" in done.stdout
    assert written.read_text().startswith("model,")


def test_every_file_that_failed_is_named(tmp_path: Path) -> None:
    outputs = Outputs(json_to=str(tmp_path / "no" / "a.json"), md_to=tmp_path / "nor" / "a.md")
    with pytest.raises(UsageError, match=r"no/a\.json: No such .*; cannot write .*nor/a\.md: No such"):
        outputs.write({"interrupted": False})


def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.json"
    write_text("before", path)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_text("after", path)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a.json", "before")]


def test_a_folder_is_refused_before_the_run_and_a_device_is_kept(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder"):
        check_writable(str(tmp_path))
    check_writable(os.devnull)
    write_text("text", Path(os.devnull))
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("interrupted", [True, False])
def test_an_interruption_is_said_on_stderr(run_bench: Any, interrupted: bool) -> None:
    done = run_bench(bench_result(interrupted), "--json", "-")
    assert done.exit_code == int(interrupted)
    assert json.loads(done.stdout)["interrupted"] == interrupted
    assert ("tilewright: interrupted" in done.stderr) == interrupted


@pytest.mark.parametrize(("pairs", "said"), [(20, "no difference"), (7, "too few pairs (7 of 8)")])
def test_a_table_says_where_there_were_too_few_pairs(pairs: int, said: str) -> None:
    result = bench_result(block_pairs=pairs)
    assert bench_cells(result)[1][-1] == said
    assert result["pairs"][0]["verdict"] == "no difference"


def test_an_engine_that_is_given_twice_has_its_pair_in_its_second_row() -> None:
    result = bench_result()
    for row in result["rows"]:
        row["engine"] = "ort"
    result["pairs"][0]["a"] = "ort"
    assert [line[-1] for line in bench_cells(result)] == ["", "no difference"]
    assert [line["verdict"] for line in csv.DictReader(io.StringIO(bench_csv(result)))] == [
        "",
        "no difference",
    ]


def test_tables_of_layers_name_the_mode_and_too_few_pairs() -> None:
    networks = [
        {"engine": "tilewright:cpu", "precision": "bf16", **TIMED},
        {"engine": "openvino", "precision": "bf16", **TIMED, **RATIO},
    ]
    ceilings = {"threads": 1, "fma_gflops": 100.0, "units": {}, "read": [{"bytes": 16000, "gb_per_s": 300.0}]}
    rows = [{"precision": "bf16"}, {"precision": "bf16"}]
    result = {"model": "dqn", "rows": rows, "ceilings": ceilings, "networks": networks}
    assert title(result).startswith("dqn in bf16: ceilings at 1 thread(s)")
    assert [line[-1] for line in network_cells(result)] == ["", "too few pairs (4 of 8)"]
