"""Reading of operators on indices: what changed between opsets, defaults, refusals."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]
One = Callable[..., np.ndarray]

INT64 = TensorProto.INT64
GRID = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_scatter_is_the_older_name(one: One) -> None:
    operands = {"i": np.array([[1, 0, 2, -1]]), "u": np.full((1, 4), 9, np.float32)}
    old = one("Scatter", {"x": GRID}, operands, opset=9)
    new = one("ScatterElements", {"x": GRID}, operands, opset=11)
    np.testing.assert_array_equal(old, new)
    assert [tuple(place) for place in np.argwhere(old == 9).tolist()] == [
        (0, 1), (1, 0), (2, 1), (2, 2), (2, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_reductions_came_later(one: One, op: str) -> None:
    indices = {"ScatterElements": np.array([[0, 0, 0, 0]]), "ScatterND": np.array([[0]])}[op]
    operands = {"i": indices, "u": np.full((1, 4), 5, np.float32)}
    assert one(op, {"x": GRID}, operands, opset=18, reduction="max")[0].tolist() == [5, 5, 5, 5]
    assert one(op, {"x": GRID}, operands, opset=16, reduction="add")[0].tolist() == [5, 6, 7, 8]
    with pytest.raises(ImportModelError, match="this version knows none, add, mul"):
        one(op, {"x": GRID}, operands, opset=16, reduction="max")
    with pytest.raises(ImportModelError, match="'reduction' is 'sub', expected one of"):
        one(op, {"x": GRID}, operands, opset=18, reduction="sub")


def test_gather_nd_shares_leading_axes(one: One) -> None:
    x, indices = np.arange(8, dtype=np.float32).reshape(2, 2, 2), np.array([[1], [0]])
    assert one("GatherND", {"x": x}, {"i": indices}, opset=12, batch_dims=1).tolist() == [[2, 3], [4, 5]]
    assert one("GatherND", {"x": x}, {"i": indices}, opset=11).shape == (2, 2, 2)


def test_top_k_takes_k_as_attribute_or_operand(build: Build, run: Run) -> None:
    x = np.array([[1, 4, 2, 4]], np.float32)
    for opset, attributes, operands, expected in [
        (9, {"k": 2}, [], ([[4, 4]], [[1, 3]])),
        (10, {}, ["k"], ([[4, 4]], [[1, 3]])),
        (11, {"largest": 0, "sorted": 0}, ["k"], ([[1, 2]], [[0, 2]])),
    ]:
        node = helper.make_node("TopK", ["x", *operands], ["v", "i"], **attributes)
        model = build([node], {"x": x}, ["v", "i"], {"k": np.array([2])}, opset)
        model.graph.output[1].type.tensor_type.elem_type = INT64
        found = run(model, {"x": x})
        assert (found["v"].tolist(), found["i"].tolist()) == expected


def test_top_k_of_too_many_is_refused(build: Build, run: Run) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="best")
    model = build([node], {"x": GRID}, ["v", "i"], {"k": np.array([5])})
    with pytest.raises(ImportModelError, match=r"node 'best' \(TopK\): k = 5 of the 4"):
        run(model, {"x": GRID})


@pytest.mark.parametrize(("last", "expected"), [(0, [0, 1]), (1, [2, 2])])
def test_first_or_last_extremum(one: One, last: int, expected: list[int]) -> None:
    x = np.array([[3, 1, 3], [0, 2, 2]], np.float32)
    found = one("ArgMax", {"x": x}, opset=12, output_kind=INT64, axis=-1, keepdims=0, select_last_index=last)
    assert found.tolist() == expected
    found = one("ArgMin", {"x": -x}, opset=12, output_kind=INT64, axis=1, keepdims=1, select_last_index=last)
    assert found.tolist() == [[index] for index in expected]


def test_hardmax_before_opset_13_flattens(one: One) -> None:
    """SM3: before opset 13 everything from the axis on is one row, by default from axis 1."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    assert one("Hardmax", {"x": x}, opset=11).sum() == 2
    assert one("Hardmax", {"x": x}, opset=11, axis=-1).sum() == 6
    assert one("Hardmax", {"x": x}, opset=13).sum() == 6
    assert one("Hardmax", {"x": x}, opset=13, axis=1).sum() == 8


def test_one_hot_axis_and_negative_indices(one: One) -> None:
    constants = {"d": np.array(3), "v": np.array([0, 1], np.float32)}
    found = one("OneHot", {"x": np.array([-1, 0, 3, -4])}, constants)
    assert found.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    found = one("OneHot", {"x": np.array([1, 2])}, constants, axis=0)
    assert found.tolist() == [[0, 0], [1, 0], [0, 1]]


def test_run_time_diagonal(build: Build, run: Run) -> None:
    node = helper.make_node("Trilu", ["x", "k"], ["y"], upper=0)
    for k in (-1, 0, 2):
        inputs = {"x": GRID, "k": np.array(k)}
        np.testing.assert_array_equal(run(build([node], inputs, ["y"]), inputs)["y"], np.tril(GRID, k))


def test_running_sum_along_known_and_unknown_axes(build: Build, run: Run) -> None:
    node = helper.make_node("CumSum", ["x", "a"], ["y"], reverse=1)
    axis = np.array([-2], np.int32)
    known = run(build([node], {"x": GRID}, ["y"], {"a": axis}), {"x": GRID})["y"]
    unknown = run(build([node], {"x": GRID, "a": axis}, ["y"]), {"x": GRID, "a": axis})["y"]
    np.testing.assert_array_equal(known, GRID[::-1].cumsum(0)[::-1])
    np.testing.assert_array_equal(unknown, known)


def test_reverse_sequence_axes(one: One) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    lengths = {"n": np.array([3, 2])}
    assert one("ReverseSequence", {"x": x}, lengths, opset=10).tolist() == [[4, 3], [2, 1], [0, 5]]


@pytest.mark.parametrize(("k", "shape"), [(0, (3, 3)), (1, (2, 4)), (-1, (300, 300))])
def test_eye_like(one: One, k: int, shape: tuple[int, int]) -> None:
    found = one("EyeLike", {"x": np.ones(shape, np.int32)}, opset=9, k=k, dtype=TensorProto.FLOAT)
    np.testing.assert_array_equal(found, np.eye(*shape, k=k))
    assert found.dtype == np.float32


def test_unseeded_random_numbers_are_refused(one: One) -> None:
    with pytest.raises(ImportModelError, match=r"without attribute 'seed' it is not supported"):
        one("RandomUniformLike", {"x": GRID}, opset=22)


def test_bernoulli_draws_with_the_given_probability(one: One) -> None:
    p = np.array([[0], [0.5], [1]], np.float32).repeat(400, 1)
    drawn = one("Bernoulli", {"p": p}, opset=15, seed=2.0, dtype=INT64, output_kind=INT64)
    assert (drawn[0].sum(), drawn[2].sum()) == (0, 400)
    assert 140 < drawn[1].sum() < 260


def test_multinomial_draws_classes_by_probability(one: One) -> None:
    x = np.log(np.array([[0.5, 0.5, 1e-30], [1e-30, 0.1, 0.9]], np.float32))
    kind = TensorProto.INT32
    drawn = one("Multinomial", {"x": x}, opset=7, seed=1.0, sample_size=500, output_kind=kind)
    assert drawn.shape == (2, 500)
    counts = [np.bincount(row, minlength=3).tolist() for row in drawn]
    assert counts[0][2] == counts[1][0] == 0
    assert 180 < counts[0][0] < 320
    assert 20 < counts[1][1] < 90
