"""Layers, geometric means, ablations and Table 2 on the page."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from report_files import Json, bench_pair, bench_row, environment

from tilewright_reports.check import disagreements
from tilewright_reports.command import run_report
from tilewright_reports.mean_sections import BEST, ablation_section, geometric_mean, left_out, mean_section

WriteJson = Callable[[str, Json], Path]


def layers_result() -> Json:
    def row(index: int, kind: str, nodes: list[str], ms: float, flops: int) -> Json:
        kernel = {"name": f"{kind.lower()}_0123456789ab", "template": "contraction", "times": 1}
        figures = {"gflops": flops / ms / 1e6, "intensity": flops / 1e6, "of_unit": 0.5, "of_floor": 0.5}
        return {
            "precision": "bf16", "index": index, "kind": kind, "nodes": nodes, "kernels": [kernel],
            "flops": flops, "bytes": 10**6, "median_ms": ms, "floor_ms": ms / 2,
            "same_as": index if nodes else None, **figures,
        }  # fmt: skip

    rows = [row(0, "Conv", ["conv1", "relu1"], 3.0, 10**9), row(1, "pack", [], 1.0, 0)]
    provenance = {"model_sha256": "ab" * 32, "engine_version": "1.0"}
    share = {"count": 1, "flops": 10**9, "floor_ms": 1.0, "of_floor": 0.5}
    totals = [
        {"kind": kind, "median_ms": ms, "share": ms / 4, **share}
        for kind, ms in (("Conv", 3.0), ("pack", 1.0), ("all", 4.0))
    ]
    timed = {
        "median_ms": 2.0,
        "p10_ms": 1.0,
        "p90_ms": 3.0,
        "samples_ms": [1.0, 2.0, 3.0],
        "precision": "fp32",
    }
    return {
        "model": "resnet18",
        "environment": environment(command=["tilewright", "layers", "resnet18", "--precision", "bf16"]),
        "ceilings": {"threads": 1, "fma_gflops": 200.0, "read": [{"bytes": 16000, "gb_per_s": 300.0}]},
        "rows": rows,
        "totals": totals,
        "networks": [{"engine": "tilewright:cpu", "provenance": provenance, **timed}],
        "alone": [{"index": 0, "engine": "ort", "ratio": 1.25, **timed}],
    }


@pytest.fixture
def made(write_json: WriteJson, tmp_path: Path) -> Path:
    assert run_report([], [], None, tmp_path / "out", [write_json("l.json", layers_result())])
    return tmp_path / "out"


def test_layers_are_held_against_the_units_that_their_file_names(
    write_json: WriteJson, tmp_path: Path
) -> None:
    result = layers_result()
    result["ceilings"]["units"] = {"fma": 200.0, "int8": 800.0}
    conv, pack = result["rows"]
    conv |= {"gops": 1234.5, "of_unit": None}
    pack |= {"gops": 0.0}
    for row in result["totals"]:
        row |= {"flops": 0, "int_ops": 7 * 10**9}
    assert run_report([], [], None, tmp_path / "out", [write_json("l.json", result)])
    page = (tmp_path / "out" / "report.md").read_text()
    assert "fma 200, int8 800 Gop/s" in page
    assert "% of unit" in page
    assert "1234.5" in page
    assert "7.000" in page
    assert "% of multiply-adds" not in page


def test_layers_stand_on_the_page_with_their_roofline(made: Path) -> None:
    page = (made / "report.md").read_text()
    assert "Layers of resnet18 in bf16: 1 thread" in page
    assert "conv1+relu1" in page
    assert "2.000 (1.25×)" in page
    assert "\ntilewright layers resnet18 --precision bf16 --json l.json\n" in page
    assert "(roofline-1.svg)" in page
    assert "<svg" in (made / "roofline-1.svg").read_text()
    assert disagreements(made) == []


def test_a_total_that_its_rows_do_not_give_is_found(write_json: WriteJson, tmp_path: Path) -> None:
    data = layers_result()
    data["totals"][-1]["median_ms"] = 5.0
    data["alone"][0]["median_ms"] = 7.0
    run_report([], [], None, tmp_path / "out", [write_json("l.json", data)])
    found = disagreements(tmp_path / "out")
    assert [line for line in found if "total of all" in line]
    assert [line for line in found if "layer 0 on ort" in line]


def test_layers_without_origin_are_left_out(write_json: WriteJson, tmp_path: Path) -> None:
    data = layers_result()
    del data["environment"]["commit"]
    assert not run_report([], [], None, tmp_path / "out", [write_json("l.json", data)])
    assert "environment.commit" in (tmp_path / "out" / "report.md").read_text()


def pairs(*lines: tuple[str, str, float], a: str = "tilewright:cpu") -> pd.DataFrame:
    fields = {"run": "r", "a": a, "ci_low": 1.0, "ci_high": 2.0}
    return pd.DataFrame([{"model": model, "b": b, "ratio": ratio, **fields} for model, b, ratio in lines])


def test_means_are_taken_within_groups_and_of_the_best_peer() -> None:
    (section,) = mean_section(
        pairs(
            ("resnet18", "ort", 1.0), ("vgg19", "ort", 4.0),
            ("resnet18", "openvino", 2.0), ("vgg19", "openvino", 2.0),
            ("tvm_c1", "ort", 9.0), ("tvm_c2", "ort", 1.0), ("resnet18[batch=4]", "ort", 100.0),
        )
    )  # fmt: skip
    assert section.table is not None
    found = {(row[0], row[2]): (row[3], row[4]) for row in section.table.rows}
    assert found["networks", "ort"] == ("2", "2.000")
    assert found["networks", "openvino"] == ("2", "2.000")
    assert found["networks", BEST] == ("2", f"{2**0.5:.3f}")
    assert found["TVM Table 2, convolutions", "ort"] == ("2", "3.000")
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("a", "b", "parts"),
    [
        ("tilewright:cpu", "tilewright:cpu,without=fusion", "fusion"),
        ("tilewright:cpu,without=matrix", "tilewright:cpu,without=matrix+storage", "storage"),
        ("tilewright:cpu,without=fusion", "tilewright:cpu", None),
        ("tilewright:cpu", "ort", None),
        ("tilewright:cpu,opt=1", "tilewright:cpu,without=fusion", None),
    ],
)
def test_which_part_is_left_out(a: str, b: str, parts: str | None) -> None:
    assert left_out(a, b) == parts


def test_ablations_are_no_part_of_the_means() -> None:
    table = pairs(
        ("resnet18", "tilewright:cpu,without=fusion", 1.5), ("vgg19", "tilewright:cpu,without=fusion", 1.2)
    )
    assert not [*mean_section(table)]
    (section,) = ablation_section(table)
    assert section.table is not None
    assert section.table.rows[0][2:4] == ["fusion", "1.500"]


def test_table_2_has_a_line_a_layer_and_a_column_an_engine(write_json: WriteJson, tmp_path: Path) -> None:
    models = ("tvm_c1", "tvm_d1")
    rows = [
        bench_row(model, engine, ms)
        for model in models
        for engine, ms in (("tilewright:cpu", 2.0), ("ort", 3.0))
    ]
    found = [bench_pair(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    data = {"environment": environment(), "rows": rows, "pairs": found}
    assert run_report([write_json("b.json", data)], [], None, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "| layer | tilewright:cpu | ort |" in page
    (line,) = [line for line in page.splitlines() if line.startswith("| D1 |")]
    assert line.rstrip().endswith("×) |")


def test_throughput_stands_on_the_page(write_json: WriteJson, tmp_path: Path) -> None:
    rows = [
        bench_row(f"dqn[batch={n}]", "ort", 2.0 * n, batch=n, concurrency=1, images_per_s=500.0)
        for n in (1, 4)
    ]
    data = {"environment": environment(), "rows": rows, "pairs": []}
    assert run_report([write_json("b.json", data)], [], None, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "| images/s |" in page
    assert "500.0" in page
