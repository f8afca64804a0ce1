"""`tilewright debug`: a planted fault is found, by both searches, and equal engines are left in peace."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from planted_fault import FAULT, FaultyEngine, branches
from typer.testing import CliRunner

from tilewright.errors import RunError, UsageError
from tilewright.ops.operator import REGISTRY
from tilewright_bench.cli import register
from tilewright_bench.engines import registry


@pytest.fixture(autouse=True)
def faulty_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry holds 'faulty' beside the engines that are there."""
    engines = {**registry.known_engines(), "faulty": FaultyEngine()}
    monkeypatch.setattr(registry, "known_engines", lambda: engines)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return branches(tmp_path_factory.mktemp("models") / "branches.onnx")


def debug(model: Path, engines: Sequence[str], *options: str, code: int) -> str:
    app = typer.Typer()
    register(app)
    asked = [part for engine in engines for part in ("--engine", engine)]
    done = CliRunner().invoke(app, ["debug", str(model), *asked, "--threads", "1", *options])
    if isinstance(done.exception, Exception) and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def debug_json(
    model: Path, engines: Sequence[str], folder: Path, *options: str, code: int
) -> Mapping[str, Any]:
    result: Mapping[str, Any] = json.loads(
        debug(model, engines, "--output-dir", str(folder), "--json", "-", *options, code=code)
    )
    return result


@pytest.mark.parametrize("mode", ["all", "bisect"])
def test_a_planted_fault_is_named_with_both_values_saved(model: Path, tmp_path: Path, mode: str) -> None:
    result = debug_json(model, ("faulty", "float64"), tmp_path, "--mode", mode, code=1)
    first = result["first"]
    assert (first["name"], first["node"], first["op"]) == (FAULT, "sigmoid", "Sigmoid")
    a, b = (np.load(path) for path in first["files"])
    assert {path.name for path in tmp_path.iterdir()} == {Path(path).name for path in first["files"]}
    right = np.log(b / (1 - b))
    np.testing.assert_allclose(a, right / (1 + np.abs(right)), rtol=1e-5)
    where = tuple(first["first_index"])
    assert (first["a_value"], first["b_value"]) == (float(a[where]), float(b[where]))
    assert first["max_abs"] == np.abs(a - b).max()
    assert first["rel_l2"] == pytest.approx(np.linalg.norm(a - b) / np.linalg.norm(b))


def test_all_looks_at_every_tensor_that_something_reads(model: Path, tmp_path: Path) -> None:
    rows = debug_json(model, ("faulty", "ort"), tmp_path, code=1)["rows"]
    names = [row["name"] for row in rows]
    assert names == ["product", "right", FAULT, "right_end", "left", "left_end", "y"]
    assert [row["name"] for row in rows if row["diverges"]] == [FAULT, "right_end", "y"]


def test_bisection_looks_at_few_tensors_and_no_further_branch(model: Path, tmp_path: Path) -> None:
    result = debug_json(model, ("faulty", "ort"), tmp_path, "--mode", "bisect", code=1)
    assert len(result["rows"]) < result["tensors"] == 7
    assert result["healed"] == []


def test_bisection_says_which_tensor_heals_when_it_is_returned(model: Path, tmp_path: Path) -> None:
    engines = (f"faulty,hides={FAULT}", "ort")
    result = debug_json(model, engines, tmp_path, "--mode", "bisect", code=1)
    assert (result["first"]["name"], result["healed"]) == ("right_end", [FAULT])
    assert debug_json(model, engines, tmp_path, code=0)["first"] is None  # all are returned: it hides
    text = debug(model, engines, "--mode", "bisect", "--output-dir", str(tmp_path), code=1)
    assert f"the outputs agree when '{FAULT}' is returned too" in text


@pytest.mark.parametrize("mode", ["all", "bisect"])
def test_engines_that_agree(model: Path, tmp_path: Path, mode: str) -> None:
    result = debug_json(model, ("tilewright:numpy", "ort"), tmp_path, "--mode", mode, "--dim", "n=3", code=0)
    assert result["first"] is None
    assert result["rows"][-1]["shape"] == [3, 8]
    assert 0 <= max(row["rel_l2"] for row in result["rows"]) < 1e-6
    assert not list(tmp_path.iterdir())


def test_an_operator_with_a_wrong_meaning(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = replace(REGISTRY["Exp"], evaluate=lambda arrays, attrs: (np.exp(arrays[0]) * np.float32(1.001),))
    monkeypatch.setitem(REGISTRY, "Exp", broken)
    result = debug_json(model, ("tilewright:numpy", "ort"), tmp_path, code=1)
    assert result["first"]["name"] == "right_end"


def test_the_text_says_what_and_where(model: Path, tmp_path: Path) -> None:
    text = debug(model, ("faulty", "ort"), "--output-dir", str(tmp_path), code=1)
    assert f"tensor '{FAULT}', of node 'sigmoid' (Sigmoid), float32 [1, 4]" in text
    assert "operand 'right': relative L2 0" in text
    assert "middle_b_0-" in text


def test_a_tensor_that_an_engine_leaves_out_is_said(model: Path, tmp_path: Path) -> None:
    result = debug_json(model, ("faulty,drops=left", "ort"), tmp_path, code=1)
    assert result["missing"] == ["left"]
    assert "left" not in [row["name"] for row in result["rows"]]


def test_given_inputs_bind_sizes(model: Path, tmp_path: Path) -> None:
    x = np.zeros((5, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    given = ("--input", f"x={tmp_path / 'x.npy'}")
    result = debug_json(model, ("faulty", "ort"), tmp_path / "out", *given, code=1)
    assert result["first"]["shape"] == [5, 4]
    assert result["first"]["b_value"] == 0.5
    with pytest.raises(UsageError, match=r"--input x: shape \[5, 4\], but n is 2"):
        debug(model, ("faulty", "ort"), *given, "--dim", "n=2", code=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mode", "some"), "--mode some is not known; choose one of all, bisect"),
        (("--tolerance", "nan"), "--tolerance nan: give 0 or more"),
        (("--input", "x"), "--input x: expected NAME=FILE.npy"),
        (("--input", "x=missing.npy"), "missing.npy is not a readable .npy file"),
        (("--engine", "ort"), "3 engines: give two"),
        (("--output-dir", "/proc/nothing"), "--output-dir /proc/nothing cannot be made"),
    ],
)
def test_bad_usage_is_refused(model: Path, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        debug(model, ("faulty", "ort"), *options, code=2)


def test_an_engine_that_fails_is_named(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: FaultyEngine, *arguments: object) -> None:
        raise ValueError("out of order")

    monkeypatch.setattr(FaultyEngine, "load", fail)
    with pytest.raises(RunError, match="engine 'faulty', all 7 tensors: ValueError: out of order"):
        debug(model, ("faulty", "ort"), "--output-dir", str(tmp_path), code=2)
