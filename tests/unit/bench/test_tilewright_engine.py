"""Tilewright's own engine with the NumPy target, which needs neither a compiler nor a device."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import UsageError
from tilewright_bench.children import cold_start
from tilewright_bench.engines.base import Settings
from tilewright_bench.engines.registry import engine_of, parse_engine
from tilewright_bench.reference import float64_reference


def test_runs_in_this_process_and_in_a_child(tiny_model: Path, tmp_path: Path) -> None:
    spec, settings = parse_engine("tilewright:numpy"), Settings(threads=1, dims={"batch": 2})
    engine = engine_of(spec)
    prepared = engine.prepare(tiny_model, spec, settings, tmp_path)
    session = engine.load(prepared, spec, settings)
    assert [(one.name, one.shape) for one in session.inputs] == [("x", (2, 4))]
    np.testing.assert_array_equal(session.run({"x": np.ones((2, 4), np.float32)})["z"], np.full((2, 3), 4))
    assert cold_start(prepared, spec, settings).first_ms > 0


def test_the_reference_is_float64(tiny_model: Path) -> None:
    inputs = {"x": np.full((1, 4), 0.1, np.float32)}
    output = float64_reference(tiny_model, inputs, {"batch": 1})["z"]
    assert output.dtype == np.float64
    np.testing.assert_allclose(output, np.full((1, 3), 4 * float(np.float32(0.1))), rtol=1e-15)


@pytest.mark.parametrize(
    ("run", "option", "row", "limit"),
    [
        ("fp32", "", "fp32", None),
        ("fp32-fast", "", "fp32-fast", 1e-4),
        ("fp32-fast", ",precision=fp32", "fp32-fast", None),  # keeps the looser contract too
        ("fp32", ",precision=fp32-fast", "fp32-fast", 1e-4),
    ],
)
def test_the_class_of_a_row(tiny_model: Path, tmp_path: Path, run: str, option: str, row: str, limit) -> None:
    spec = parse_engine(f"tilewright:numpy{option}")
    settings = Settings(threads=1, precision=run, dims={"batch": 1})
    session = engine_of(spec).open(tiny_model, spec, settings, tmp_path)
    assert (session.precision, session.l2_limit) == (row, limit)


@pytest.mark.parametrize(
    ("engine", "option"),
    [
        ("tilewright:cpu", "opt=9"),
        ("tilewright:numpy", "precision=fp7"),
        ("tilewright:cpu", "without=fusoin"),
        ("tilewright:cpu", "without=fusion+"),
        ("ort", "opt=all"),
        ("ort", "spinning=maybe"),
        ("openvino", "precision=int4"),
        ("ncnn", "precision=bf16"),
    ],
)
def test_unknown_values_are_refused_before_anything_is_loaded(engine: str, option: str) -> None:
    wrong = option.replace("fusion+", "")
    with pytest.raises(
        UsageError, match=f"'{engine.partition(':')[0]}': {wrong} is not known; choose one of"
    ):
        parse_engine(f"{engine},{option}")
