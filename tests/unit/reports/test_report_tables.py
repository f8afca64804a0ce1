"""The page: what it shows, what it keeps apart, what it leaves out and why."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from report_files import Json, accuracy_result, bench_pair, bench_result, bench_row

from tilewright.errors import DataError
from tilewright_reports.page import Page, Section, render_html, render_markdown
from tilewright_reports.report import Report, build
from tilewright_reports.sources import Sources, read_sources

WriteJson = Callable[[str, Json], Path]


def report_of(write_json: WriteJson, *bench: Json, accuracy: Json | None = None) -> Report:
    files = [write_json(f"bench{number}.json", data) for number, data in enumerate(bench)]
    shares = [write_json("accuracy.json", accuracy)] if accuracy else []
    return build(read_sources(files, shares, None))


def titled(page: Page, start: str) -> list[Section]:
    return [section for section in page.sections if section.title.startswith(start)]


def column(section: Section, name: str) -> list[str]:
    assert section.table is not None
    place = list(section.table.head).index(name)
    return [row[place] for row in section.table.rows]


def left_out(report: Report) -> dict[str, str]:
    (section,) = titled(report.page, "Left out")
    return dict(zip(column(section, "what"), column(section, "reason"), strict=True))


def test_latency_table_has_every_model_and_engine_with_its_figures(write_json: WriteJson) -> None:
    data = bench_result()
    (section,) = titled(report_of(write_json, data).page, "Latency")
    assert column(section, "engine") == ["tilewright:cpu", "ort"] * 2
    assert column(section, "median ms") == [f"{row['median_ms']:.2f}" for row in data["rows"]]
    assert column(section, "load s") == ["0.125"] * 4
    assert column(section, "l2_rel_err") == ["3.1e-07"] * 4
    assert column(section, "peak MB") == ["170"] * 4


def test_pairs_show_ratio_interval_and_verdict(write_json: WriteJson) -> None:
    data = bench_result(["resnet18"])
    (section,) = titled(report_of(write_json, data).page, "Pairs")
    (pair,) = data["pairs"]
    assert column(section, "ratio b/a") == [f"{pair['ratio']:.3f}"]
    assert column(section, "99 % interval") == [f"{pair['ci_low']:.3f} to {pair['ci_high']:.3f}"]
    assert column(section, "a is") == ["faster"]


def test_accuracy_lists_shares_and_flips(write_json: WriteJson) -> None:
    page = report_of(write_json, accuracy=accuracy_result()).page
    (shares,) = titled(page, "Accuracy")
    assert column(shares, "top-1") == ["0.9500", "0.9000"]
    (agreement,) = titled(page, "Agreement")
    assert column(agreement, "flips") == ["1"]
    (flips,) = titled(page, "Flips")
    assert column(flips, "image") == ["07.jpg"]


@pytest.mark.parametrize(
    "facts",
    [{"cpu": "Another CPU"}, {"flags": ["avx2", "fma", "avx512f"]}, {"threads": 2}, {"host_cpus": 64}],
)
def test_other_machines_and_thread_counts_are_sections_of_their_own(
    write_json: WriteJson, facts: Json
) -> None:
    page = report_of(write_json, bench_result(["resnet18"]), bench_result(["resnet18"], **facts)).page
    sections = titled(page, "Latency")
    assert len({section.title for section in sections}) == 2
    for section in sections:
        assert column(section, "engine") == ["tilewright:cpu", "ort"]
        assert section.figure is not None
        assert [panel["name"] for panel in section.figure.data] == ["resnet18"]
    assert len(titled(page, "Pairs")) == 2


def test_a_pair_across_thread_counts_is_refused(write_json: WriteJson) -> None:
    ours, theirs = (
        bench_row("resnet18", "tilewright:cpu", 20.0),
        bench_row("resnet18", "ort", 24.0, threads=2),
    )
    data = bench_result([]) | {"rows": [ours, theirs], "pairs": [bench_pair(ours, theirs)]}
    report = report_of(write_json, data)
    assert not titled(report.page, "Pairs")
    assert left_out(report) == {
        "resnet18: tilewright:cpu beside ort": "not comparable: threads is 1 and 2",
    }


@pytest.mark.parametrize("field", ["model_sha256", "engine_version", "records_sha256", "ftz"])
def test_a_row_without_full_provenance_is_left_out(write_json: WriteJson, field: str) -> None:
    data = bench_result(["resnet18"])
    del data["rows"][1]["provenance"][field]
    report = report_of(write_json, data)
    (section,) = titled(report.page, "Latency")
    assert column(section, "engine") == ["tilewright:cpu"]
    reasons = left_out(report)
    assert reasons["resnet18 on ort"] == f"provenance is not complete: without provenance.{field}"
    assert reasons["resnet18: tilewright:cpu beside ort"] == "one of its rows is left out"


def test_a_file_without_environment_has_no_reportable_row(write_json: WriteJson) -> None:
    data = bench_result(["resnet18"])
    del data["environment"]
    report = report_of(write_json, data)
    assert report.is_empty
    assert "environment.commit" in left_out(report)["resnet18 on ort"]


def test_a_failed_row_is_named_and_the_others_stay(write_json: WriteJson) -> None:
    data = bench_result(["resnet18"])
    data["rows"].append({"model": "dqn", "engine": "ort", "threads": 1, "error": "RunError: it broke"})
    report = report_of(write_json, data)
    assert len(report.results.latency) == 2
    assert left_out(report) == {"dqn on ort": "failed: RunError: it broke"}


def test_an_error_that_is_not_finite_is_shown(write_json: WriteJson) -> None:
    data = bench_result(["resnet18"])
    data["rows"][0]["l2_rel_err"] = None
    (section,) = titled(report_of(write_json, data).page, "Latency")
    assert column(section, "l2_rel_err") == ["inf", "3.1e-07"]


def test_uncommitted_code_is_said_at_the_top(write_json: WriteJson) -> None:
    clean, dirty = bench_result(["resnet18"]), bench_result(["resnet18"], dirty=True)
    assert not any("not repeatable" in note for note in report_of(write_json, clean).page.notes)
    assert any("not repeatable" in note for note in report_of(write_json, dirty).page.notes)


def test_the_commands_to_make_it_again_are_there(write_json: WriteJson) -> None:
    engines = ["--engine", "ort", "--engine", "ort", "--engine", "tilewright:cpu,without=winograd"]
    command = ["tilewright", "bench", "my model.onnx", *engines, "--precision", "bf16", "--dim", "batch=1"]
    result = bench_result(command=command)
    (section,) = titled(report_of(write_json, result, accuracy=accuracy_result()).page, "How to make")
    lines = section.code.splitlines()
    assert lines.pop(0).startswith("git checkout 0123456789abcdef")
    again = shlex.split(lines[0])
    assert again[: len(command)] == command
    assert again[len(command)] == "--json"
    assert lines[-1] == "tilewright report --check -o ."


def test_a_file_that_records_no_command_is_named(write_json: WriteJson) -> None:
    (section,) = titled(report_of(write_json, bench_result()).page, "How to make")
    (line,) = [line for line in section.code.splitlines() if line.startswith("#")]
    assert "does not record the command" in line
    assert not any(line.startswith("tilewright bench") for line in section.code.splitlines())


def test_markdown_and_html_hold_the_same_numbers(write_json: WriteJson) -> None:
    data = bench_result(["resnet18"])
    page = report_of(write_json, data).page
    for row in data["rows"]:
        assert f"{row['median_ms']:.2f}" in render_markdown(page)
        assert f"{row['median_ms']:.2f}" in render_html(page)


def test_html_escapes_what_files_contain(write_json: WriteJson) -> None:
    page = report_of(write_json, bench_result(["<script>"])).page
    assert "<script>" not in render_html(page)
    assert "&lt;script&gt;" in render_html(page)


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "is not JSON"), ("[]", "object was expected"), (json.dumps({"pairs": []}), 'no "rows"')],
)
def test_damaged_files_are_named(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"bad\.json") as caught:
        read_sources([path], [], None)
    assert said in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.json"):
        read_sources([], [tmp_path / "absent.json"], None)


def test_no_sources_make_an_empty_report() -> None:
    assert build(Sources([], [], [])).is_empty
