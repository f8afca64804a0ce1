"""asv's result files: failed and skipped parameters stay in their rows, machines stay apart."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tilewright.errors import DataError
from tilewright_reports.asv_results import asv_table
from tilewright_reports.asv_sections import asv_sections
from tilewright_reports.results import LeftOut
from tilewright_reports.sources import read_sources


def table_of(folder: Path) -> tuple[pd.DataFrame, list[LeftOut]]:
    left_out: list[LeftOut] = []
    return asv_table(read_sources([], [], folder).asv, left_out), left_out


def states(table: pd.DataFrame, benchmark: str) -> dict[tuple[str, str], str]:
    rows = table[table["benchmark"] == benchmark]
    return {(row.engine, row.threads): row.state for row in rows.itertuples()}


def edited(folder: Path, tmp_path: Path, change) -> Path:  # type: ignore[no-untyped-def]
    """A copy of asv's folder whose result file went through `change`."""
    copy = tmp_path / "results"
    shutil.copytree(folder, copy)
    (path,) = copy.glob("vm/*-existing-*.json")
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return copy


# Of https://github.com/airspeed-velocity/asv/issues/1028: one failing parameter stores null.
def test_failed_and_skipped_parameters_are_marked_and_others_intact(asv_folder: Path) -> None:
    table, left_out = table_of(asv_folder)
    assert not left_out
    assert states(table, "m.Lat.time_run") == {
        ("a", "1"): "ok",
        ("a", "2"): "ok",
        ("b", "1"): "failed",
        ("b", "2"): "skipped",
    }
    assert states(table, "m.Lat.track_top1")[("a", "2")] == "skipped"
    times = table[(table["benchmark"] == "m.Lat.time_run") & (table["state"] == "ok")]
    assert times["value"].tolist() == [0.0010739359998979126, 0.00107490250002229]
    assert table[table["state"] != "ok"]["value"].isna().all()


def test_a_benchmark_that_failed_altogether_keeps_all_its_parameters(
    asv_folder: Path, tmp_path: Path
) -> None:
    def fail(data: dict) -> None:  # type: ignore[type-arg]
        data["results"]["m.Lat.time_run"] = None

    table, _ = table_of(edited(asv_folder, tmp_path, fail))
    assert set(states(table, "m.Lat.time_run").values()) == {"failed"}
    assert states(table, "m.Lat.peakmem_run")[("a", "1")] == "ok"


# Of https://github.com/airspeed-velocity/asv/pull/687: rows of different machines were compared.
def test_machines_and_thread_counts_are_split(asv_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(asv_folder, folder)
    shutil.copytree(folder / "vm", folder / "other")
    (path,) = folder.glob("other/*-existing-*.json")
    data = json.loads(path.read_text())
    data["params"] |= {"machine": "other", "cpu": "Another CPU"}
    path.write_text(json.dumps(data))

    table, _ = table_of(folder)
    sections = list(asv_sections(table))
    assert len({section.title for section in sections}) == 4
    for section in sections:
        assert section.table is not None
        rows = [tuple(row[:2]) for row in section.table.rows]
        assert len(rows) == len(set(rows)) == 6


def test_results_without_their_machine_are_left_out(asv_folder: Path, tmp_path: Path) -> None:
    table, left_out = table_of(edited(asv_folder, tmp_path, lambda data: data["params"].pop("machine")))
    assert table.empty
    assert [item.reason for item in left_out] == ["provenance is not complete: without params.machine"]


def test_another_schema_is_refused(asv_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="version 3"):
        table_of(edited(asv_folder, tmp_path, lambda data: data.update(version=3)))


def test_a_folder_that_is_not_asvs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"benchmarks\.json"):
        read_sources([], [], tmp_path)
