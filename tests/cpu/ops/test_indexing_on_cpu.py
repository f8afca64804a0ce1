"""Gathers, scatters, searches and running sums as generated code, with the cases of the log about them."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from case import Case
from compiled_case import check_compiled
from indexing_cases import code_cases, indexing_cases
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.errors import RunError

CASES = list(indexing_cases())
TARGETS = ("numpy", "cpu")


@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_compiled_equals_numpy_meaning(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)


@pytest.mark.parametrize("case", list(code_cases()), ids=str)
def test_codes(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)


@pytest.mark.parametrize("case", CASES[2::20], ids=str)
def test_without_optimisation(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path, level=0)


@pytest.mark.parametrize(
    "case",
    [
        Case("TopK", [np.random.default_rng(1).standard_normal((70, 300), np.float32)], {"k": 9, "axis": 1}),
        Case("CumSum", [np.arange(20_000).reshape(50, 400)], {"axis": 0, "reverse": True}),
        Case("ScatterElements", [np.zeros((30, 300)), np.arange(27_000).reshape(90, 300) % 30,
                                 np.arange(27_000.0).reshape(90, 300)], {"axis": 0}),
        Case("ScatterElements", [np.zeros((200, 100)), np.full((200, 90), -1), np.ones((200, 90))],
             {"axis": 1, "reduction": "add"}),
    ],
    ids=str,
)  # fmt: skip
def test_large_operands_are_shared_by_threads(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path, threads=2)


class Model:
    """A model of one node after another; inputs by name, the results of the last node."""

    def __init__(self, inputs: dict[str, np.ndarray], opset: int = 17) -> None:
        self.inputs, self.opset = inputs, opset
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, op: str, operands: list[str], results: list[str], **attributes: Any) -> "Model":
        self.nodes.append(helper.make_node(op, operands, results, **attributes))
        return self

    def constant(self, name: str, array: np.ndarray) -> "Model":
        self.constants[name] = array
        return self

    def run(self, target: str, cache: Path, **results: Any) -> dict[str, np.ndarray]:
        """results: NumPy element type of each output, by name."""
        code = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(n, code(a.dtype), a.shape) for n, a in self.inputs.items()],
            [helper.make_tensor_value_info(n, code(np.dtype(t)), None) for n, t in results.items()],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        return tw.compile(model.SerializeToString(), target=target, cache_dir=cache).run(self.inputs)


def grid() -> np.ndarray:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("target", TARGETS)
def test_ix1_negative_indices_wrap(target: str, tmp_path: Path) -> None:
    last = Model({"x": grid(), "i": np.full((3, 1), -1)}).node("GatherElements", ["x", "i"], ["y"], axis=1)
    assert last.run(target, tmp_path, y=np.float32)["y"].ravel().tolist() == [3, 7, 11]
    pairs = Model({"x": grid(), "i": np.array([[-1, -1], [0, -2]])}).node("GatherND", ["x", "i"], ["y"])
    assert pairs.run(target, tmp_path, y=np.float32)["y"].tolist() == [11, 2]
    rows = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    scatter = Model({"x": 0 * grid(), "i": np.array([[-1], [0]]), "u": rows})
    scatter.node("ScatterND", ["x", "i", "u"], ["y"])
    found = scatter.run(target, tmp_path, y=np.float32)["y"]
    assert found.tolist() == [[5, 6, 7, 8], [0, 0, 0, 0], [1, 2, 3, 4]]


@pytest.mark.parametrize("target", TARGETS)
def test_ix3_index_outside_the_axis_is_an_error(target: str, tmp_path: Path) -> None:
    scalar = Model({"x": grid(), "i": np.array(-1)}).node("Gather", ["x", "i"], ["y"], axis=1)
    found = scalar.run(target, tmp_path, y=np.float32)["y"]
    assert (found.shape, found.tolist()) == ((3,), [3, 7, 11])
    for op, indices in [("Gather", [3]), ("Gather", [-4]), ("GatherElements", [[0, 1, 2, 3]])]:
        outside = Model({"x": grid(), "i": np.array(indices)}).node(op, ["x", "i"], ["y"])
        with pytest.raises(RunError, match=r"(?i)gather.*outside"):
            outside.run(target, tmp_path, y=np.float32)


def test_a_run_after_a_fault_is_right(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [3, 4]), helper.make_tensor_value_info("i", 7, [2])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    engine = tw.compile(model.SerializeToString(), cache_dir=tmp_path)
    with pytest.raises(RunError, match="outside"):
        engine.run({"x": grid(), "i": np.array([0, 3])})
    np.testing.assert_array_equal(engine.run({"x": grid(), "i": np.array([0, -1])})["y"], grid()[[0, 2]])


@pytest.mark.parametrize("target", TARGETS)
def test_ix4_negative_steps(target: str, tmp_path: Path) -> None:
    x = np.arange(10, dtype=np.float32)
    for bounds in [(9, 0, -1), (9, 0, -3), (7, -100, -2)]:
        model = Model({"x": x}).constant("axes", np.array([0]))
        for name, number in zip(("starts", "ends", "steps"), bounds, strict=True):
            model.constant(name, np.array([number]))
        model.node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])
        found = model.run(target, tmp_path, y=np.float32)["y"]
        np.testing.assert_array_equal(found, x[slice(*bounds)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("known", [False, True])
def test_ix6_running_sums(target: str, known: bool, tmp_path: Path) -> None:
    x, axis = np.array([[1, 2, 3, 4]], np.float32), np.array(-1)
    expected = {(0, 0): [1, 3, 6, 10], (0, 1): [10, 9, 7, 4], (1, 0): [0, 1, 3, 6], (1, 1): [9, 7, 4, 0]}
    for (exclusive, reverse), wanted in expected.items():
        model = Model({"x": x}).constant("axis", axis) if known else Model({"x": x, "axis": axis})
        model.node("CumSum", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
        assert model.run(target, tmp_path, y=np.float32)["y"].tolist() == [wanted]


@pytest.mark.parametrize("target", TARGETS)
def test_sm3_the_first_maximum_wins(target: str, tmp_path: Path) -> None:
    x = np.array([[[1, 3], [3, 3]], [[2, 2], [0, 1]]], np.float32)
    for opset, expected in [
        (13, [[[0, 1], [1, 0]], [[1, 1], [0, 0]]]),
        (11, [[[0, 1], [0, 0]], [[1, 0], [0, 0]]]),
    ]:
        model = Model({"x": x}, opset).node("Hardmax", ["x"], ["y"], axis=1)
        assert model.run(target, tmp_path, y=np.float32)["y"].tolist() == expected


@pytest.mark.parametrize("target", TARGETS)
def test_sh4_concat_with_an_empty_part(target: str, tmp_path: Path) -> None:
    x = {"a": np.zeros(0, np.float32), "b": np.array([1, 2], np.float32)}
    model = Model(x).node("Concat", ["a", "b"], ["y"], axis=0)
    assert model.run(target, tmp_path, y=np.float32)["y"].tolist() == [1, 2]
    wide = Model({"a": np.zeros((4, 0), np.float32), "b": np.zeros((3, 0), np.float32)})
    wide.node("Concat", ["a", "b"], ["c"], axis=0).node("Cast", ["c"], ["y"], to=6)
    assert wide.run(target, tmp_path, y=np.int32)["y"].shape == (7, 0)


@pytest.mark.parametrize("target", TARGETS)
def test_sh1_sh3_sh6_sh8_shapes(target: str, tmp_path: Path) -> None:
    copied = Model({"x": np.zeros((2, 2, 3, 2), np.float32)}).constant("s", np.array([-1, 0, 0]))
    copied.node("Reshape", ["x", "s"], ["y"])
    assert copied.run(target, tmp_path, y=np.float32)["y"].shape == (4, 2, 3)
    zero = Model({"x": np.zeros((0, 8, 2), np.float32)})
    zero.constant("s", np.array([4, 2, -1])).constant("t", np.array([0, 0, 4]))
    zero.node("Reshape", ["x", "s"], ["m"]).node("Reshape", ["m", "t"], ["y"], allowzero=1)
    assert zero.run(target, tmp_path, y=np.float32)["y"].shape == (0, 0, 4)
    none = Model({"a": np.zeros(1, np.float32), "b": np.zeros(0, np.float32)}).node("Add", ["a", "b"], ["y"])
    assert none.run(target, tmp_path, y=np.float32)["y"].shape == (0,)
    grown = Model({"x": np.zeros((3, 1), np.float32)}).constant("s", np.array([2, 1, 4]))
    assert grown.node("Expand", ["x", "s"], ["y"]).run(target, tmp_path, y=np.float32)["y"].shape == (2, 3, 4)


@pytest.mark.parametrize("target", TARGETS)
def test_ew6_chained_casts_normalise(target: str, tmp_path: Path) -> None:
    model = Model({"x": np.array([-1, 0, 2])})
    model.node("Cast", ["x"], ["b"], to=9).node("Cast", ["b"], ["y"], to=6).node("Cast", ["b"], ["f"], to=1)
    model.node("ReduceSum", ["f"], ["s"], keepdims=0).node("Cast", ["s"], ["t"], to=9)
    model.node("Cast", ["t"], ["z"], to=1)
    found = model.run(target, tmp_path, y=np.int32, z=np.float32)
    assert (found["y"].tolist(), found["z"].tolist()) == ([1, 0, 1], 1.0)


def test_ew7_casts_out_of_range_agree(tmp_path: Path) -> None:
    """No trap, and one answer on all paths: input or constant, scalar or vector code, every level."""
    x = np.array([np.nan, np.inf, -np.inf, 3e9, 5] * 8, np.float32)
    answers = []
    for target in TARGETS:
        given = Model({"x": x}).node("Cast", ["x"], ["y"], to=6)
        folded = Model({"d": x}).constant("x", x).node("Cast", ["x"], ["c"], to=6)
        folded.node("Identity", ["c"], ["y"])
        answers += [m.run(target, tmp_path, y=np.int32)["y"].tolist() for m in (given, folded)]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][4::5] == [5] * 8
    narrow = Model({"x": np.array([300, -1, 256], np.int32)}).node("Cast", ["x"], ["y"], to=2)
    assert narrow.run("cpu", tmp_path, y=np.uint8)["y"].tolist() == [44, 255, 0]


@pytest.mark.parametrize("target", TARGETS)
def test_ew15_half_types_round(target: str, tmp_path: Path) -> None:
    x = np.array([0.333333343, 1.00390625, 1.01171875, 3.4e38, np.nan], np.float32)
    brain = Model({"x": x}).node("Cast", ["x"], ["h"], to=16).node("Cast", ["h"], ["y"], to=1)
    found = brain.run(target, tmp_path, y=np.float32)["y"]
    np.testing.assert_array_equal(found, [0.333984375, 1, 1.015625, np.inf, np.nan])
    x = np.array([65504, 65519, 65520, 1e-8, 2049], np.float32)
    half = Model({"x": x}).node("Cast", ["x"], ["h"], to=10).node("Cast", ["h"], ["y"], to=1)
    assert half.run(target, tmp_path, y=np.float32)["y"].tolist() == [65504, 65504, np.inf, 0, 2048]


@pytest.mark.parametrize("target", TARGETS)
def test_gr13_dropout_hands_on_its_input(target: str, tmp_path: Path) -> None:
    x = np.array([1, -2], np.float32)
    for ratio, training in ((0.75, False), (0.0, True)):
        model = Model({"x": x}, opset=13).constant("r", np.array(ratio, np.float32))
        model.constant("t", np.array(training)).node("Dropout", ["x", "r", "t"], ["y", "mask"])
        found = model.run(target, tmp_path, y=np.float32, mask=np.bool_)
        assert (found["y"].tolist(), found["mask"].tolist()) == ([1, -2], [True, True])


@pytest.mark.parametrize("op", ["RandomUniformLike", "RandomNormalLike", "Bernoulli"])
def test_seeded_random_numbers_are_the_same_everywhere(op: str, tmp_path: Path) -> None:
    model = Model({"x": np.full((40, 50), 0.25, np.float32)}, opset=22).node(op, ["x"], ["y"], seed=3.0)
    first, second = (model.run(target, tmp_path, y=np.float32)["y"] for target in TARGETS)
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    mean, deviation = {
        "RandomUniformLike": (0.5, 0.289),
        "RandomNormalLike": (0, 1),
        "Bernoulli": (0.25, 0.433),
    }[op]
    assert abs(first.mean() - mean) < 0.05
    assert abs(first.std() - deviation) < 0.05


@pytest.mark.parametrize("target", TARGETS)
def test_bits_survive_a_bit_cast(target: str, tmp_path: Path) -> None:
    x = np.array([1.5, -0.0, np.inf, 1e-40], np.float32)
    model = Model({"x": x}, opset=26).node("BitCast", ["x"], ["y"], to=12)
    np.testing.assert_array_equal(model.run(target, tmp_path, y=np.uint32)["y"], x.view(np.uint32))
    half = np.array([1.5, -2, 0.1], ml_dtypes.bfloat16)
    model = Model({"x": half}, opset=26).node("BitCast", ["x"], ["y"], to=5)
    np.testing.assert_array_equal(model.run(target, tmp_path, y=np.int16)["y"], half.view(np.int16))
