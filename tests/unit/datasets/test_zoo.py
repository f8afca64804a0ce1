"""The zoo: reproducible files, right structure, right amount of work, safe cache."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, shape_inference

from tilewright.errors import CacheError, UsageError
from tilewright_datasets import catalogue, zoo
from tilewright_datasets.cache import make_once, sha256_of
from tilewright_datasets.calibrate import measure_batch_norms
from tilewright_datasets.catalogue import ZOO
from tilewright_datasets.config import Config
from tilewright_datasets.writer import Draws, GraphWriter

QUICK = (
    *("dqn", "squeezenet1_1", "dcgan", "mobilenet_v1", "mobilenet_v2", "resnet18"),
    *("tvm_c1", "tvm_c4", "tvm_c11", "tvm_d2", "tvm_d9", "tvm_c4_int8", "tvm_d9_int8"),
)


def multiply_accumulates(model: onnx.ModelProto) -> int:
    inferred = shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*inferred.value_info, *inferred.output, *inferred.input)
    }
    weights = {weight.name: list(weight.dims) for weight in inferred.initializer}
    total = 0
    for node in inferred.node:
        if node.op_type == "Conv":
            total += math.prod(shapes[node.output[0]]) * math.prod(weights[node.input[1]][1:])
        elif node.op_type == "QLinearConv":
            total += math.prod(shapes[node.output[0]]) * math.prod(weights[node.input[3]][1:])
        elif node.op_type == "ConvTranspose":
            total += math.prod(shapes[node.input[0]]) * math.prod(weights[node.input[1]][1:])
        elif node.op_type == "Gemm":
            total += math.prod(weights[node.input[1]])
    return total


@pytest.mark.parametrize("name", QUICK)
def test_file_is_the_one_of_the_manifest(name: str, recwarn: pytest.WarningsRecorder) -> None:
    path = zoo.model_path(name)
    assert path is not None
    assert sha256_of(path) == ZOO[name].sha256
    assert not [warning for warning in recwarn if warning.category is zoo.ZooDigestWarning]
    model = onnx.load(path)
    assert [opset.version for opset in model.opset_import] == [17]
    inputs = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in model.graph.input
    }
    assert inputs == ZOO[name].inputs
    assert multiply_accumulates(model) / 1e9 == pytest.approx(ZOO[name].gmac, rel=0.07)
    for initialiser in model.graph.initializer:
        values = np.abs(numpy_helper.to_array(initialiser).astype(np.float64))
        assert not ((values > 0) & (values < np.finfo(np.float32).tiny)).any(), (
            f"denormal in {initialiser.name}"
        )


@pytest.mark.parametrize(("name", "pads"), [("tvm_c1", [2, 2, 3, 3]), ("tvm_d2", [0, 0, 1, 1])])
def test_same_padding_is_larger_at_the_end(name: str, pads: list[int]) -> None:
    (node,) = onnx.load(zoo.model_path(name)).graph.node
    (found,) = (list(attribute.ints) for attribute in node.attribute if attribute.name == "pads")
    assert found == pads
    assert len(node.input) == 3, "the layer has a bias"


@pytest.mark.parametrize(
    ("name", "output", "shape"), [("dqn", "q_values", (1, 18)), ("dcgan", "image", (1, 3, 64, 64))]
)
def test_outputs_are_alive(name: str, output: str, shape: tuple[int, ...]) -> None:
    session = onnxruntime.InferenceSession(str(zoo.model_path(name)))
    generator = np.random.default_rng(0)
    feeds = {key: generator.standard_normal(size, np.float32) for key, size in ZOO[name].inputs.items()}
    (value,) = session.run([output], feeds)
    assert value.shape == shape
    assert 0.1 < value.std() < 10


def test_batch_norm_statistics_are_those_of_the_batch() -> None:
    draws = Draws(7)
    graph = GraphWriter("one")
    x = graph.input("data", [1, 3, 9, 9])
    weight = draws.normal((4, 3, 3, 3), 0.2)
    x = graph.conv("conv", x, weight, None, stride=2, pads=(0, 0, 1, 1))
    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    graph.batch_norm("bn", x, ones, zeros, zeros, ones, 1e-5)
    batch = draws.normal((2, 3, 9, 9), 1.0)
    measure_batch_norms(graph, batch)
    padded = np.pad(batch, ((0, 0), (0, 0), (0, 1), (0, 1)))
    expected = np.stack(
        [
            np.einsum("nchw,ochw->no", padded[:, :, row : row + 3, column : column + 3], weight)
            for row in range(0, 8, 2)
            for column in range(0, 8, 2)
        ]
    )
    np.testing.assert_allclose(
        graph.weights["bn.running_mean"], expected.mean(axis=(0, 1)), rtol=1e-3, atol=1e-6
    )
    np.testing.assert_allclose(graph.weights["bn.running_var"], expected.var(axis=(0, 1)), rtol=1e-3)


def test_draws_are_normal() -> None:
    values = Draws(3).normal((200_000,), 0.5)
    assert abs(values.mean()) < 0.005
    assert values.std() == pytest.approx(0.5, rel=0.01)
    assert (np.abs(values) < 0.5).mean() == pytest.approx(0.683, abs=0.01)


def test_other_names_are_not_ours() -> None:
    assert zoo.model_path("somewhere/model.onnx") is None
    assert zoo.preprocess_spec("somewhere/model.onnx") is None


def test_suites() -> None:
    assert len(zoo.suite("zoo")) == 10
    layers = {*zoo.suite("tvm-table2"), *zoo.suite("tvm-table2-int8")}
    assert len(layers) == 42
    assert {*zoo.suite("zoo"), *layers} < {*zoo.model_names()}
    with pytest.raises(UsageError, match="no suite 'nothing'; there are: zoo, tvm-table2, tvm-table2-int8"):
        zoo.suite("nothing")


def test_changed_build_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.ZOO, "dqn", replace(ZOO["dqn"], sha256="0" * 64))
    with pytest.warns(zoo.ZooDigestWarning, match="zoo-digest"):
        zoo.model_path("dqn")


def test_failed_make_leaves_nothing(tmp_path: Path) -> None:
    def fail(draft: Path) -> None:
        draft.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_once(tmp_path / "file", fail)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
    assert make_once(tmp_path / "file", lambda draft: draft.touch()).is_file()


def test_concurrent_users_make_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(draft: Path) -> None:
        made.append(draft)
        draft.write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: make_once(tmp_path / "file", make), range(8)))
    assert len(made) == 1
    assert {path.read_text() for path in paths} == {"whole"}


def test_unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "occupied").write_text("a file, not a folder")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "occupied"))
    with pytest.raises(CacheError, match="TILEWRIGHT_CACHE_DIR"):
        zoo.model_path("dqn")


def test_cache_dir_from_environment(settings: Config, tmp_path: Path) -> None:
    path = zoo.model_path("dqn")
    assert path is not None
    assert path.is_relative_to(tmp_path / "cache")
    assert zoo.cached_file("dqn", settings) == path
