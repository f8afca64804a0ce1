"""The command: the folder it writes, and the check of a report against its raw data."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from report_files import Json, accuracy_result, bench_pair, bench_result, bench_row, environment
from typer.testing import CliRunner

from tilewright.errors import TilewrightError
from tilewright_reports import cli

WriteJson = Callable[[str, Json], Path]
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run() -> Run:
    app = typer.Typer()
    cli.register(app)

    def invoke(*arguments: object) -> tuple[int, str]:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if isinstance(done.exception, TilewrightError):
            raise done.exception
        return done.exit_code, done.output

    return invoke


@pytest.fixture
def made(run: Run, write_json: WriteJson, asv_folder: Path, tmp_path: Path) -> Path:
    """A whole report."""
    bench = write_json("b.json", bench_result())
    accuracy = write_json("a.json", accuracy_result())
    out = tmp_path / "out"
    code, text = run("--bench", bench, "--accuracy", accuracy, "--asv", asv_folder, "-o", out)
    assert code == 0
    assert str(out / "report.html") in text.replace("\n", "")
    assert "mobilenet_v2" in text
    return out


def test_the_folder_holds_page_plots_and_raw_files(made: Path) -> None:
    names = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert names >= {"report.md", "report.html", "latency-1.svg", "ratios-1.svg", "accuracy-1.svg"}
    assert names >= {"raw/bench/01-b.json", "raw/accuracy/01-a.json", "raw/asv/benchmarks.json"}
    markdown = (made / "report.md").read_text()
    for name in ("latency-1.svg", "ratios-1.svg", "accuracy-1.svg"):
        assert f"({name})" in markdown
        assert f'src="{name}"' in (made / "report.html").read_text()


def test_an_untouched_report_agrees_and_is_made_again_identically(run: Run, made: Path) -> None:
    assert run("--check", "-o", made)[0] == 0
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    raw = made / "raw"
    arguments = ["--bench", raw / "bench/01-b.json", "--accuracy", raw / "accuracy/01-a.json"]
    assert run(*arguments, "--asv", raw / "asv", "-o", made)[0] == 0
    assert before == {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}


def test_a_report_with_less_leaves_nothing_of_the_one_before(run: Run, made: Path, tmp_path: Path) -> None:
    assert run("--bench", tmp_path / "b.json", "-o", made)[0] == 0
    assert not list(made.glob("accuracy-*.svg"))
    assert not list((made / "raw").rglob("a.json"))
    assert run("--check", "-o", made)[0] == 0


@pytest.mark.parametrize("page", ["report.md", "report.html"])
def test_an_edited_number_on_the_page_is_found(run: Run, made: Path, page: str) -> None:
    path = made / page
    text = path.read_text()
    assert "0.125" in text
    path.write_text(text.replace("0.125", "0.124", 1))
    code, said = run("--check", "-o", made)
    assert code == 1
    assert page in said


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("median_ms", lambda data: data["rows"][0].update(median_ms=10.0)),
        ("p90_ms", lambda data: data["rows"][1].update(p90_ms=99.0)),
        ("ratio", lambda data: data["pairs"][0].update(ratio=2.0)),
    ],
)
def test_a_summary_that_its_samples_do_not_give_is_found(
    run: Run, write_json: WriteJson, tmp_path: Path, name: str, change: Callable[[Json], None]
) -> None:
    data = bench_result()
    change(data)
    out = tmp_path / "out"
    assert run("--bench", write_json("b.json", data), "-o", out)[0] == 0
    code, said = run("--check", "-o", out)
    assert code == 1
    assert name in said


@pytest.mark.parametrize("wrong", [False, True])
def test_an_engine_that_was_given_twice_is_checked_against_its_own_rows(
    run: Run, write_json: WriteJson, tmp_path: Path, wrong: bool
) -> None:
    rows = [bench_row("dqn", "ort", ms) for ms in (2.0, 3.0, 4.0)]
    pairs = [bench_pair(rows[0], row) for row in rows[1:]]
    if wrong:
        pairs.reverse()
    data = {"environment": environment(), "rows": rows, "pairs": pairs}
    assert run("--bench", write_json("b.json", data), "-o", tmp_path / "out")[0] == 0
    code, said = run("--check", "-o", tmp_path / "out")
    assert code == int(wrong)
    assert ("ort / ort: ratio" in said) == wrong


def test_an_accuracy_that_its_flips_do_not_give_is_found(
    run: Run, write_json: WriteJson, tmp_path: Path
) -> None:
    data = accuracy_result()
    data["pairs"][0]["agree_top1"] = 1.0
    out = tmp_path / "out"
    run("--accuracy", write_json("a.json", data), "-o", out)
    # The pair of a bare file has no n of its own: it is that of its rows.
    code, said = run("--check", "-o", out)
    assert code == 1
    assert "agree_top1" in said


def test_a_plot_of_other_numbers_is_found(run: Run, made: Path) -> None:
    path = made / "latency-1.svg"
    path.write_text(path.read_text().replace("tilewright:cpu", "tilewright:gpu"))
    code, said = run("--check", "-o", made)
    assert code == 1
    assert "latency-1.svg" in said


def test_check_walks_all_reports_below_a_folder(run: Run, made: Path) -> None:
    assert run("--check", "-o", made.parent)[0] == 0


def test_nothing_reportable_exits_1_and_says_where_the_reasons_are(
    run: Run, write_json: WriteJson, tmp_path: Path
) -> None:
    data = bench_result(["resnet18"])
    for row in data["rows"]:
        del row["provenance"]
    code, said = run("--bench", write_json("b.json", data), "-o", tmp_path / "out")
    assert code == 1
    assert "no row is reportable" in said
    assert "provenance is not complete" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize("arguments", [[], ["--check", "-o", "nowhere"], ["--check", "--asv", "x"]])
def test_calls_without_sense_are_refused(run: Run, arguments: list[str]) -> None:
    with pytest.raises(TilewrightError):
        run(*arguments)


def test_a_bad_file_writes_nothing(run: Run, write_json: WriteJson, tmp_path: Path) -> None:
    good, bad = write_json("b.json", bench_result()), tmp_path / "bad.json"
    bad.write_text("{")
    with pytest.raises(TilewrightError):
        run("--bench", good, "--bench", bad, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_raw_files_are_kept_byte_for_byte(made: Path, tmp_path: Path) -> None:
    assert (made / "raw/bench/01-b.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((made / "raw/accuracy/01-a.json").read_text()) == accuracy_result()
