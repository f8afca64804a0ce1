"""The commands as a user types them: stdout, stderr and exit codes."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tilewright.errors import ImportModelError, RunError, UsageError
from tilewright_bench.affinity import usable_cpus
from tilewright_bench.cli import register
from tilewright_bench.options import integers, settings_of


@pytest.fixture
def app() -> typer.Typer:
    application = typer.Typer()
    register(application)
    return application


def test_engines_as_json_is_all_there_is_on_stdout(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["engines", "--json", "-"])
    assert done.exit_code == 0
    listed = {engine["name"]: engine for engine in json.loads(done.stdout)["engines"]}
    assert listed["ort"]["available"]
    assert listed["tilewright"]["targets"] == ["cpu", "opencl", "numpy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench"], "give a MODEL"),
        (
            ["bench", "no-such-model", "--engine", "ort"],
            "neither a file nor a zoo name; the zoo has resnet18",
        ),
        (["bench", "resnet81"], "neither a file nor a zoo name; did you mean resnet18?"),
        (["bench", "dqn", "--engine", "nix"], "unknown engine 'nix'"),
        (["bench", "dqn", "--precision", "int8"], "--precision int8 is not known"),
        (["layers", "dqn", "--engine", "tilewright:cpu,without=fusoin"], "without=fusoin is not known"),
        (["accuracy", "dqn", "--without", "fusion,nix"], "--without nix is not known; choose from fusion"),
        (["bench", "dqn", "--dim", "batch"], "--dim batch: give NAME=N"),
        (["bench", "dqn", "--dim", "Q=4"], "--dim Q=4: no model has that dimension; there are none"),
        (["bench", "dqn", "--threads", "100000"], "usable CPUs"),
        (["bench", "--suite", "nix", "--engine", "ort"], "no suite 'nix'"),
        (["bench", "dqn", "--json", "/no/such/folder/out.json"], "cannot write /no/such/folder/out.json"),
        (["bench", "--selftest", "a", "b"], "at most one MODEL"),
        (["accuracy", "--engine", "ort"], "give a MODEL"),
        (["accuracy", "dqn", "--topk", "one"], "--topk one: give positive numbers"),
    ],
)
def test_bad_usage_is_one_clear_error(app: typer.Typer, arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("module", "measure", "arguments"),
    [
        (
            "bench_command",
            "compare",
            "bench MODEL --engine ort --engine ort --threads 1 --precision fp32-fast --dim batch=1 -O 2 "
            "--without winograd,fusion --duration 0.5 --concurrency 1",
        ),
        ("bench_command", "compare", "bench dqn --suite tvm-table2 --batch 1,4"),
        ("layers.command", "measure_layers", "layers dqn --engine tilewright:cpu --precision bf16"),
        (
            "accuracy.command",
            "measure_accuracy",
            "accuracy efficientnet_lite0 --dataset foolbox --topk 1,3 --limit 2 --label-offset 0",
        ),
    ],
)
def test_a_result_holds_the_command_that_was_given(
    app: typer.Typer,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    measure: str,
    arguments: str,
) -> None:
    def nothing_measured(*_: object) -> dict[str, Any]:
        lists = {name: [] for name in ("rows", "pairs", "alone", "networks", "inside", "totals")}
        origin = {"environment": {"commit": "abc"}, "interrupted": False, "model": "dqn"}
        return origin | {"ceilings": {"threads": 1, "fma_gflops": 100.0, "units": {}, "read": []}, **lists}

    monkeypatch.setattr(importlib.import_module(f"tilewright_bench.{module}"), measure, nothing_measured)
    words = arguments.replace("MODEL", str(tiny_model)).split()
    done = CliRunner().invoke(app, [*words, "--json", "-", "-q"])
    environment = json.loads(done.stdout)["environment"]
    assert environment["commit"] == "abc"
    assert sorted(environment["command"]) == sorted(["tilewright", *words])
    again = CliRunner().invoke(app, [*environment["command"][1:], "--json", "-"])
    assert json.loads(again.stdout)["environment"]["command"] == environment["command"]


@pytest.mark.usefixtures("fake_engines")
def test_selftest_prints_raw_figures(app: typer.Typer, tiny_model: Path) -> None:
    arguments = [
        "bench",
        str(tiny_model),
        "--selftest",
        "--engine",
        "fake",
        "--threads",
        "1",
        "--runs",
        "2",
        "--dim",
        "batch=1",
    ]
    done = CliRunner().invoke(app, [*arguments, "--duration", "0.2", "-q"])
    result = json.loads(done.stdout)
    assert [(one["kind"], one["threads"], len(one["runs"])) for one in result["results"]] == [
        ("A/A", 1, 2),
        ("planted", 1, 2),
    ]
    # Whether two short runs on a busy machine can tell is no matter of this test; that the code says so is.
    assert done.exit_code == (0 if result["passed"] else 1)
    assert result["passed"] == all(one["right"] >= one["needed"] for one in result["results"])


def test_settings_and_lists() -> None:
    settings = settings_of(1, "fp32", ["batch=2", "a=b=3"], 2, "matrix,fusion", None)
    assert settings.dims == {"batch": 2, "a=b": 3}
    assert settings.without == ("matrix", "fusion")
    assert integers("--topk", "1,5") == (1, 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"this is text", "not an ONNX model"), (b"", "it has no outputs")],
)
def test_a_file_that_is_no_model_is_refused(
    app: typer.Typer, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    done = CliRunner().invoke(app, ["bench", str(path), "--engine", "ort", "-q"])
    assert isinstance(done.exception, ImportModelError)
    assert message in str(done.exception)


def test_a_truncated_model_is_refused(app: typer.Typer, tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    path.write_bytes(tiny_model.read_bytes()[:-30])
    done = CliRunner().invoke(app, ["bench", str(path), "--engine", "ort", "-q"])
    assert isinstance(done.exception, ImportModelError)


def test_a_dimension_without_a_value_is_refused(app: typer.Typer, tiny_model: Path) -> None:
    done = CliRunner().invoke(app, ["bench", str(tiny_model), "--engine", "ort", "-q"])
    assert isinstance(done.exception, UsageError)
    assert "dimensions without a value: batch; give --dim batch=N" in str(done.exception)


def test_thread_counts_of_the_selftest_have_processes_of_their_own(
    app: typer.Typer, tiny_model: Path
) -> None:
    arguments = ["bench", str(tiny_model), "--selftest", "--engine", "ort", "--runs", "1", "--dim", "batch=1"]
    done = CliRunner().invoke(app, [*arguments, "--duration", "0.2", "-q"])
    result = json.loads(done.stdout)
    counts = sorted({1, min(2, len(usable_cpus()))})
    assert [one["threads"] for one in result["results"]] == [count for count in counts for _ in range(2)]


def test_an_error_in_the_process_of_a_selftest_is_told(app: typer.Typer, tiny_model: Path) -> None:
    arguments = ["bench", str(tiny_model), "--selftest", "--engine", "ort", "--runs", "1", "--dim", "batch=1"]
    done = CliRunner().invoke(app, [*arguments, "--precision", "bf16", "-q"])
    assert isinstance(done.exception, RunError)
    assert "bf16 is not one of fp32" in str(done.exception)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("bench", "--json"),
        ("bench", "--csv"),
        ("layers", "--md"),
        ("accuracy", "--json"),
        ("debug", "--json"),
    ],
)
def test_a_model_is_not_replaced_by_a_result(
    app: typer.Typer, tiny_model: Path, command: str, option: str
) -> None:
    before = tiny_model.read_bytes()
    done = CliRunner().invoke(app, [command, str(tiny_model), option, str(tiny_model)])
    assert isinstance(done.exception, UsageError)
    assert "it is the model, which would be lost" in str(done.exception)
    assert tiny_model.read_bytes() == before
