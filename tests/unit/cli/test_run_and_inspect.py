"""`run` and `inspect` on the target that needs no code generator."""

import json

import numpy as np
import pytest

NUMPY = ("--target", "numpy", "--dim", "n=2")


def test_run_seeds_what_is_not_given(tilewright, model, tmp_path):
    x = np.array([[1, 2, 3], [-4, -5, -6]], np.float32)
    np.save(tmp_path / "x.npy", x)
    done = tilewright("run", model, *NUMPY, "--input", "x=x.npy", "--output-dir", "out", "--json", "-")
    assert done.code == 0
    np.testing.assert_array_equal(np.load("out/y.npy"), np.maximum(x + np.array([1, -2, 3]), 0))
    doubled = np.load("out/i.npy")
    assert doubled.dtype == np.int64
    assert ((doubled >= 0) & (doubled < 20) & (doubled % 2 == 0)).all()
    rows = json.loads(done.out)["outputs"]
    assert [row["name"] for row in rows] == ["y", "i"]
    assert rows[0]["max"] == 6.0


def test_seeds_are_repeatable(tilewright, model):
    outs = [tilewright("run", model, *NUMPY, "--seed", s, "--json", "-").out for s in (0, 0, 1)]
    first, again, other = (json.loads(out)["outputs"] for out in outs)
    assert first == again != other


def test_any_node_can_be_an_output(tilewright, model):
    done = tilewright("run", model, *NUMPY, "--output", "plus", "--output", "y", "--json", "-")
    rows = {row["name"]: row for row in json.loads(done.out)["outputs"]}
    assert list(rows) == ["plus", "y"]
    assert rows["plus"]["min"] < 0 <= rows["y"]["min"]


def test_a_table_is_printed_for_people(tilewright, model):
    done = tilewright("run", model, *NUMPY)
    assert "float32[2, 3]" in done.out
    assert "first run" in done.out


def test_a_trace_is_written(tilewright, model, tmp_path):
    assert tilewright("run", model, *NUMPY, "--trace", "t.json").code == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == ["segment numpy"]


def test_inspect_describes_the_model(tilewright, model):
    done = tilewright("inspect", model, *NUMPY, "--json", "-")
    facts = json.loads(done.out)
    assert facts["ops"] == {"Add": 2, "Relu": 1}
    assert facts["inputs"][1] == {"name": "ids", "dtype": "int64", "shape": [4]}
    assert facts["target"] == "numpy"
    shown = tilewright("inspect", model, *NUMPY)
    assert "2 Add, 1 Relu" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "x"), "expected NAME=FILE.npy"),
        (("--input", "x=none.npy"), "not a readable .npy"),
        (("--input", "x=two.onnx"), "not a readable .npy"),
        (("--output", "nothing"), "no output or node of that name"),
        (("--output-dir", "two.onnx/out"), "cannot be made"),
        (("--trace", "none/t.json"), "cannot be written"),
    ],
)
def test_bad_requests_are_one_line(tilewright, model, arguments, message):
    done = tilewright("run", model, *NUMPY, *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_wrong_shapes_say_what_was_expected(tilewright, model, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    done = tilewright("run", model, *NUMPY, "--input", "x=x.npy")
    assert done.code == 2
    assert "expected float32[2, 3], found float32[3, 2]" in done.err
