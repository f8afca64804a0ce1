"""`compile`, `inspect` and `run` on an artefact."""

import json

import numpy as np
import pytest

from tilewright.cli import main


@pytest.fixture(scope="module")
def _commands():
    main.load_commands()


@pytest.mark.usefixtures("_commands")
def test_compile_inspect_run(network, image, cache_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ["--cache-dir", str(cache_dir), "--dim", "n=1"]
    assert main.run(["compile", str(network), "-o", "n.tw", *common]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "n.tw: " in captured.err

    assert main.run(["inspect", "n.tw", "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (segment,) = facts["segments"]
    memory = segment["memory"]
    assert memory["lower_bound"] <= memory["arena_bytes"] <= memory["sum_bytes"]
    assert segment["flops"] > 12 * 12 * 8 * 27 * 2
    rows = {node: row for row in segment["kernels"] for node in row["nodes"]}
    assert {"conv", "relu", "pool", "mean", "classes"} <= rows.keys()
    assert rows["conv"]["template"] == "contraction"
    assert rows["conv"]["source"] == "analytic model"
    assert "columns=" in rows["conv"]["knobs"]
    reasons = {node: row for row in segment["reasons"] for node in row["nodes"]}
    cycles = reasons["conv"]["algorithm"]["cycles"]
    assert reasons["conv"]["algorithm"]["chosen"] == min(cycles, key=cycles.get) == "direct"
    assert reasons["pool"]["storage"]["granted"]
    assert reasons["classes"]["kernel"] == rows["classes"]["name"]
    assert main.run(["inspect", "n.tw"]) == 0
    shown = capsys.readouterr().out
    assert "lower bound" in shown
    assert f"direct {cycles['direct']:,}, winograd {cycles['winograd']:,}" in shown

    np.save("x.npy", image)
    arguments = ["--input", "x=x.npy", "--output-dir", "out", "--trace", "t.json", "--json", "-"]
    assert main.run(["run", "n.tw", *arguments]) == 0
    capsys.readouterr()
    assert (
        main.run(["run", str(network), "--target", "numpy", *common, *arguments[:2], "--output-dir", "ref"])
        == 0
    )
    np.testing.assert_allclose(np.load("out/y.npy"), np.load("ref/y.npy"), rtol=1e-5, atol=1e-5)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert events[0]["name"] == "segment cpu"
    assert len(events) > 2

    assert main.run(["run", "n.tw", "--output", "conv"]) == 2
    assert "the artefact has only the outputs y" in capsys.readouterr().err
