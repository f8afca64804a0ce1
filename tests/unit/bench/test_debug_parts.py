"""The order of tensors, cuts through a model, differences, and file names."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError, UsageError
from tilewright_bench.debug.difference import difference
from tilewright_bench.debug.report import file_name
from tilewright_bench.debug.tensors import ModelTensors, frontier

F = np.float32


def saved(path: Path, nodes: list[onnx.NodeProto], shape: list[object], outputs: list[str]) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "test", [x], results)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def node(op: str, reads: str, makes: str) -> onnx.NodeProto:
    return helper.make_node(op, reads.split(), makes.split())


def test_order_is_topological_even_where_the_file_is_not(tmp_path: Path) -> None:
    nodes = [node("Neg", "b", "c"), node("Abs", "a", "b"), node("Exp", "x", "a")]
    tensors = ModelTensors(saved(tmp_path / "m.onnx", nodes, [2], ["c"]), {}, {})
    assert [tensor.name for tensor in tensors.all] == ["a", "b", "c"]


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    nodes = [node("Neg", "b", "a"), node("Abs", "a", "b")]
    with pytest.raises(ImportModelError, match=r"cycle through node '[ab]'"):
        ModelTensors(saved(tmp_path / "m.onnx", nodes, [2], ["b"]), {}, {})


def test_sequences_and_constants_are_left_out(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["axis"], value_ints=[1, 1])
    nodes = [constant, node("SplitToSequence", "x axis", "parts"), node("ConcatFromSequence", "parts", "y")]
    nodes[-1].attribute.append(helper.make_attribute("axis", 0))
    tensors = ModelTensors(saved(tmp_path / "m.onnx", nodes, [2], ["y"]), {}, {})
    assert [tensor.name for tensor in tensors.all] == ["y"]


def test_a_cut_holds_what_bodies_read(tmp_path: Path) -> None:
    makes = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    body = helper.make_graph([node("Neg", "inside", "z")], "body", [], [makes])
    nodes = [
        node("Exp", "x", "inside"),
        node("Abs", "x", "other"),
        helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=body),
    ]
    nodes.insert(2, helper.make_node("Cast", ["other"], ["flag"], to=TensorProto.BOOL))
    tensors = ModelTensors(saved(tmp_path / "m.onnx", nodes, [], ["y"]), {}, {})
    assert [frontier(tensors.all, ["y"], position) for position in range(4)] == [
        ["inside"],
        ["inside", "other"],
        ["inside", "flag"],
        ["y"],
    ]


def test_sizes_that_nothing_gives_are_one_and_said(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", [node("Neg", "x", "y")], ["batch", "time", None], ["y"])
    tensors = ModelTensors(path, {"time": 7}, {})
    assert tensors.assumed == ("batch", "x:2")
    tensors.save(tmp_path / "bound.onnx", [])
    (x,) = onnx.load(tmp_path / "bound.onnx").graph.input
    assert [dim.dim_value for dim in x.type.tensor_type.shape.dim] == [1, 7, 1]


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("y", (2,), "the model has no such input; it takes x"),
        ("x", (2, 2), "the model declares 1 dimensions"),
        ("x", (3,), "but axis 0 is 2"),
    ],
)
def test_inputs_that_do_not_fit(tmp_path: Path, name: str, shape: tuple[int, ...], message: str) -> None:
    path = saved(tmp_path / "m.onnx", [node("Neg", "x", "y")], [2], ["y"])
    with pytest.raises(UsageError, match=f"--input {name}: .*{message}"):
        ModelTensors(path, {}, {name: np.zeros(shape, F)})


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff\xfenothing")
    with pytest.raises(ImportModelError, match="is not an ONNX model"):
        ModelTensors(tmp_path / "m.onnx", {}, {})


def test_the_first_index_is_the_first_beyond_the_tolerance() -> None:
    b = np.ones((2, 3), F)
    a = b.copy()
    a[0, 1] += F(1e-6)
    a[1, 0] += F(0.5)
    found = difference(a, b, 1e-3)
    assert (found.first_index, found.differing) == ((1, 0), 2)
    assert (found.a_value, found.b_value, found.max_abs) == (1.5, 1.0, 0.5)
    assert found.exceeds(1e-3)
    assert difference(a, b, 0.0).first_index == (0, 1)
    assert difference(b, b, 0.0) == difference(b, b.astype(np.float64), 0.0)


def test_tolerance_zero_asks_for_equality() -> None:
    a, b = np.array([2**60 + 1, 1]), np.array([2**60, 1])
    assert difference(a, b, 0.0).exceeds(0.0)
    assert not difference(a, a, 0.0).exceeds(0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_on_one_side_diverges(value: float) -> None:
    a, b = np.array([1, value], F), np.array([1, 2], F)
    assert difference(a, b, 1e9).exceeds(1e9)
    assert difference(a, b, 1e9).first_index == (1,)
    assert difference(b, a, 1e9).exceeds(1e9)
    assert difference(a, a, 0.0).differing == 0


def test_shapes_and_kinds_must_agree() -> None:
    one = np.ones(3, F)
    assert difference(one, np.ones((3, 1), F), 1.0).mismatch == "shape [3] against [3, 1]"
    assert difference(one, np.ones(3, np.int64), 1.0).mismatch == (
        "a floating type, float32, against an integer one, int64"
    )
    assert difference(one, one.astype(ml_dtypes.bfloat16), 0.0).differing == 0


def test_scalars_and_empty_tensors() -> None:
    assert difference(np.float32(1), np.float32(3), 0.1).first_index == ()
    assert not difference(np.ones((0, 2), F), np.ones((0, 2), F), 0.0).exceeds(0.0)


def test_file_names_are_safe_and_never_shared() -> None:
    assert file_name("conv1") == "conv1"
    slash, colon = file_name("a/b"), file_name("a:b")
    assert slash.startswith("a_b-")
    assert colon.startswith("a_b-")
    assert slash != colon
    assert len(file_name("x" * 1000)) < 120
    assert not file_name("../etc").startswith(".")
