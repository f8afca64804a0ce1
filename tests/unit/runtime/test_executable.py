"""Running: results, fresh and given output arrays, and refusals that say what was expected."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tilewright.errors import ArtefactError, RunError
from tilewright.runtime.executable import Executable
from tilewright.runtime.tracing import chrome_trace

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_results_by_name_and_by_call(package):
    exe = Executable.of(package)
    np.testing.assert_array_equal(exe.run({"x": X})["y"], 3 * X)
    np.testing.assert_array_equal(exe(X), 3 * X)
    assert [tuple(a) for a in exe.inputs] == [("x", np.dtype(np.float32), (2, 3))]
    assert [a.name for a in exe.outputs] == ["y"]


def test_every_run_gives_fresh_arrays(package):
    exe = Executable.of(package)
    first = exe.run({"x": X})["y"]
    second = exe.run({"x": X + 1})["y"]
    np.testing.assert_array_equal(first, 3 * X)
    np.testing.assert_array_equal(second, 3 * (X + 1))


def test_values_pass_between_segments(chain):
    exe = Executable.of(chain)
    result = exe.run({"b": X, "a": np.ones_like(X)})
    assert list(result) == ["y"]
    np.testing.assert_array_equal(result["y"], 2 * (3 * (X + 1) + 1))


def test_inputs_of_any_memory_order_are_taken(package):
    exe = Executable.of(package)
    np.testing.assert_array_equal(exe(np.asfortranarray(X)), 3 * X)
    np.testing.assert_array_equal(exe(np.repeat(X, 2, 1)[:, ::2]), 3 * X)


def test_out_is_filled_and_returned(package):
    exe = Executable.of(package)
    out = np.zeros_like(X)
    assert exe.run({"x": X}, out={"y": out})["y"] is out
    np.testing.assert_array_equal(out, 3 * X)


def test_runs_may_overlap(package):
    exe = Executable.of(package)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: exe(X * n), range(40)))
    for n, result in enumerate(results):
        np.testing.assert_array_equal(result, 3 * (X * n))


def _read_only():
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("inputs", "out", "message"),
    [
        ({"z": X}, None, "no input 'z'; its inputs are 'x' float32[2, 3]"),
        ({}, None, "missing input 'x' float32[2, 3]"),
        ({"x": X.astype(np.float64)}, None, "expected float32[2, 3], found float64[2, 3]"),
        ({"x": X.T}, None, "expected float32[2, 3], found float32[3, 2]"),
        ({"x": X.astype(">f4")}, None, "found >f4[2, 3]"),
        ({"x": X}, {"q": np.zeros_like(X)}, "out= names 'q'; the outputs are 'y' float32[2, 3]"),
        ({"x": X}, {"y": np.zeros((2, 3))}, "found float64[2, 3]"),
        ({"x": X}, {"y": np.zeros((3, 2), np.float32).T}, "C-contiguous"),
        ({"x": X}, {"y": _read_only()}, "writable"),
        ({"x": X}, {"y": X}, "shares memory with 'x'"),
        ({"x": X}, {"y": [[0.0]]}, "found list"),
    ],
)
def test_refusals_say_what_was_expected_and_found(package, inputs, out, message):
    with pytest.raises(RunError, match=re.escape(message)):
        Executable.of(package).run(inputs, out)


def test_a_call_with_too_many_inputs_is_refused(package):
    with pytest.raises(RunError, match="2 inputs given, the model has 1"):
        Executable.of(package)(X, X)


def test_no_threads_are_refused(package):
    with pytest.raises(RunError, match="at least one thread"):
        Executable.of(package, threads=0)


def test_an_unknown_device_is_named_with_those_that_are_installed(package):
    foreign = replace(package, segments=(replace(package.segments[0], target="abacus"),))
    with pytest.raises(ArtefactError, match=r"target 'abacus'; installed: .*scaler"):
        Executable.of(foreign)


def test_what_cannot_be_saved_gives_its_reason(package, tmp_path):
    exe = Executable(package, [None], unsaveable="it is made of air")
    with pytest.raises(ArtefactError, match="made of air"):
        exe.save(tmp_path / "x.tw")
    assert list(tmp_path.iterdir()) == []


class _Telling:
    """A segment that knows its instructions."""

    def run(self, inputs, outputs):
        outputs[0][...] = inputs[0]

    def trace(self, inputs, outputs):
        self.run(inputs, outputs)
        return [("conv", 0.25), ("relu", 0.5)]


def test_a_trace_has_the_results_and_spans(package, chain):
    results, spans = Executable(package, [_Telling()]).trace({"x": X})
    np.testing.assert_array_equal(results["y"], X)
    assert [(s.name, s.row) for s in spans] == [("segment scaler", 0), ("conv", 1), ("relu", 1)]
    events = chrome_trace(spans)["traceEvents"]
    assert events[2]["ts"] - events[1]["ts"] == pytest.approx(0.25e6)
    assert events[2]["dur"] == pytest.approx(0.5e6)
    results, spans = Executable.of(chain).trace({"a": X, "b": X})
    np.testing.assert_array_equal(results["y"], 2 * (6 * X + X))
    assert [s.name for s in spans] == ["segment scaler"] * 2
