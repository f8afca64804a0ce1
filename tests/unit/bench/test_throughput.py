"""Throughput: models at other batch sizes, and several runs at a time."""

import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tilewright.errors import UsageError
from tilewright_bench.batches import loads, rebatched
from tilewright_bench.concurrent import Callers
from tilewright_bench.engines.base import Arrays, Session, Settings
from tilewright_bench.engines.registry import engine_of, parse_engine
from tilewright_bench.models import ModelFile
from tilewright_bench.statistics import Ratio
from tilewright_datasets import zoo


class Counting(Session):
    """Counts its runs, and how many run at once."""

    precision, inputs, outputs, notes = "fp32", (), (), {}

    def __init__(self, fails: bool = False) -> None:
        self.runs = self.running = self.most = 0
        self.fails = fails
        self.lock = threading.Lock()
        self.meeting = threading.Barrier(2)

    def run(self, inputs: Arrays) -> Arrays:
        with self.lock:
            self.runs += 1
        if self.fails:
            raise RuntimeError("no memory")
        self.meeting.wait(timeout=10)  # passes only when two runs overlap
        return {}


def test_a_batch_is_the_leading_dimension_of_inputs_and_outputs(tmp_path: Path) -> None:
    model = ModelFile("dqn", zoo.model_path("dqn"))
    (found,) = loads([model], [3], 1, tmp_path)
    assert (found.name, found.batch) == ("dqn[batch=3]", 3)
    session = onnxruntime.InferenceSession(found.path)
    given = np.random.default_rng(0).standard_normal((3, 4, 84, 84), np.float32)
    (together,) = session.run(None, {"data": given})
    assert together.shape == (3, 18)
    (alone,) = onnxruntime.InferenceSession(model.path).run(None, {"data": given[1:2]})
    np.testing.assert_allclose(together[1:2], alone, rtol=1e-4, atol=1e-5)


def test_names_say_what_is_asked(tmp_path: Path) -> None:
    model = ModelFile("dqn", zoo.model_path("dqn"))
    assert loads([model], [], 1, tmp_path) == [model]
    names = [one.name for one in loads([model], [1, 2], 2, tmp_path)]
    assert names == ["dqn[batch=1][concurrency=2]", "dqn[batch=2][concurrency=2]"]


def test_a_model_without_a_batch_is_refused() -> None:
    model = onnx.load(zoo.model_path("lstm_lm"), load_external_data=False)
    with pytest.raises(UsageError, match=r"lstm_lm: the shape of 'tokens' starts with 35"):
        rebatched(model, 2, "lstm_lm")


def test_a_model_that_holds_its_batch_in_a_constant_is_refused() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 2])
    shape = helper.make_tensor("shape", TensorProto.INT64, [3], [1, 2, 2])
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["y"])], "g", [x], [y], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UsageError, match="cannot run at batch 2"):
        rebatched(model, 2, "fixed")


def test_callers_run_at_the_same_time() -> None:
    session = Counting()
    with Callers(session, {}, 2) as callers:
        warm, callers.runs = session.runs, 3
        callers()
        assert session.runs == warm + 2 * 3
    assert not [thread for thread in callers._threads if thread.is_alive()]


def test_what_a_caller_meets_reaches_whoever_called() -> None:
    with pytest.raises(RuntimeError, match="no memory"), Callers(Counting(fails=True), {}, 2):
        pass


def test_a_ratio_of_other_numbers_of_runs() -> None:
    assert Ratio(2.0, 1.0, 3.0, 9).scaled(0.5) == Ratio(1.0, 0.5, 1.5, 9)


@pytest.mark.parametrize("engine", ["tilewright:cpu", "ort"])
def test_sessions_beside_each_other_give_the_same(engine: str, tmp_path: Path) -> None:
    spec = parse_engine(engine)
    settings = Settings(threads=1, concurrency=2, cache_dir=str(tmp_path / "cache"))
    prepared = engine_of(spec).prepare(zoo.model_path("dqn"), spec, settings, tmp_path)
    session = engine_of(spec).load(prepared, spec, settings)
    given = {"data": np.ones((1, 4, 84, 84), np.float32)}
    wanted = session.run(given)["q_values"]
    with Callers(session, given, 2) as callers:
        callers()
    np.testing.assert_array_equal(session.beside().run(given)["q_values"], wanted)
