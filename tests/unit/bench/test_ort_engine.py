"""ONNX Runtime behind the common boundary, in this process and in a child."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import RunError, UsageError
from tilewright_bench.children import cold_start
from tilewright_bench.denormals import flushes_denormals
from tilewright_bench.engines.base import Prepared, Settings
from tilewright_bench.engines.registry import engine_of, parse_engine


def test_runs_with_a_bound_dimension(tiny_model: Path) -> None:
    spec = parse_engine("ort,opt=0,spinning=off")
    session = engine_of(spec).load(Prepared(tiny_model), spec, Settings(threads=1, dims={"batch": 2}))
    assert [(one.name, one.dtype, one.shape) for one in session.inputs] == [
        ("x", np.dtype(np.float32), (2, 4))
    ]
    output = session.run({"x": np.ones((2, 4), np.float32)})["z"]
    np.testing.assert_array_equal(output, np.full((2, 3), 4, np.float32))


def test_an_unbound_dimension_is_named(tiny_model: Path) -> None:
    spec = parse_engine("ort")
    with pytest.raises(
        UsageError, match=r"input 'x' has dimensions without a value: batch; give --dim batch=N"
    ):
        engine_of(spec).load(Prepared(tiny_model), spec, Settings(threads=1))


def test_a_precision_it_does_not_have_is_refused(tiny_model: Path) -> None:
    spec = parse_engine("ort")
    with pytest.raises(UsageError, match="bf16 is not one of fp32, fp32-fast"):
        engine_of(spec).load(Prepared(tiny_model), spec, Settings(threads=1, precision="bf16"))


def test_cold_start_in_a_child(tiny_model: Path) -> None:
    figures = cold_start(Prepared(tiny_model), parse_engine("ort"), Settings(threads=1, dims={"batch": 1}))
    assert figures.load_s > 0
    assert figures.first_ms > 0
    assert 0 < figures.imports_rss_mb <= figures.peak_rss_mb


def test_a_failing_child_reports_its_reason(tiny_model: Path) -> None:
    with pytest.raises(RunError, match=r"failed in its own process: .*--dim batch=N"):
        cold_start(Prepared(tiny_model), parse_engine("ort"), Settings(threads=1))


def test_denormals_are_kept_by_default(tmp_path: Path) -> None:
    spec = parse_engine("ort")
    assert flushes_denormals(engine_of(spec), spec, Settings(threads=1), tmp_path) is False
