"""What tensor expressions mean."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.dtypes import F32, I64
from tilewright.errors import LoweringError, RunError
from tilewright.expr import binary, call, const, logical_and, read, select
from tilewright.tensor import evaluate as module
from tilewright.tensor.evaluate import evaluate_tensors
from tilewright.tensor.ir import Reducer, compute, compute_many, placeholder, reduce, reduce_axis, sum_over


def test_matrix_product() -> None:
    a, b = placeholder((3, 5), F32, "a"), placeholder((5, 2), F32, "b")
    k = reduce_axis(5, "k")
    c = compute((3, 2), lambda i, j: sum_over(a[i, k] * b[k, j], k), "c")
    left = np.arange(15, dtype=np.float32).reshape(3, 5)
    right = np.arange(10, dtype=np.float32).reshape(5, 2)
    (result,) = evaluate_tensors([c], {"a": left, "b": right})
    np.testing.assert_array_equal(result, left @ right)


def test_guarded_read_may_leave_its_source() -> None:
    x = placeholder((3,), F32, "x")

    def shifted(i):  # type: ignore[no-untyped-def]
        return select(logical_and(binary("ge", i - 1, const(0))), read(x, [i - 1]), const(9, F32))

    (result,) = evaluate_tensors([compute((4,), shifted, "y")], {"x": np.float32([1, 2, 3])})
    assert result.tolist() == [9, 1, 2, 3]


def test_unguarded_read_outside_is_an_error() -> None:
    x = placeholder((3,), F32, "x")
    y = compute((4,), lambda i: read(x, [i]), "y")
    with pytest.raises(LoweringError, match="'x' is read outside axis 0 of extent 3"):
        evaluate_tensors([y], {"x": np.zeros(3, np.float32)})


def test_wrong_guard_is_an_error() -> None:
    x = placeholder((3,), F32, "x")
    y = compute((4,), lambda i: select(i < 4, read(x, [i]), const(0, F32)), "y")
    with pytest.raises(LoweringError, match="read outside"):
        evaluate_tensors([y], {"x": np.zeros(3, np.float32)})


def test_reducer_of_several_accumulators() -> None:
    """The largest value and where it stands first."""

    def combine(acc, new):  # type: ignore[no-untyped-def]
        larger = binary("gt", new[0], acc[0])
        return select(larger, new[0], acc[0]), select(larger, new[1], acc[1])

    argmax = Reducer("argmax", combine, (lambda _: -np.inf, lambda _: -1))
    x = placeholder((2, 4), F32, "x")
    k = reduce_axis(4, "k")
    outputs = compute_many((2,), lambda i: reduce(argmax, [x[i, k], k.var], [k]), "best")
    data = np.float32([[1, 7, 7, 2], [9, 0, 0, 1]])
    value, index = evaluate_tensors(outputs, {"x": data})
    assert value.tolist() == [7, 9]
    assert index.tolist() == [1, 0]
    assert index.dtype == I64.numpy


def test_large_grids_are_evaluated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 10)
    x = placeholder((7, 5), F32, "x")
    k = reduce_axis(5, "k")
    y = compute((7,), lambda i: sum_over(x[i, k] * 2, k), "y")
    data = np.arange(35, dtype=np.float32).reshape(7, 5)
    (result,) = evaluate_tensors([y], {"x": data})
    np.testing.assert_array_equal(result, data.sum(axis=1) * 2)


def test_feeds_are_checked() -> None:
    x = placeholder((3,), F32, "x")
    y = compute((3,), lambda i: x[i] * 2, "y")
    with pytest.raises(RunError, match="'x' has no array"):
        evaluate_tensors([y], {})
    with pytest.raises(RunError, match="'x' is f32"):
        evaluate_tensors([y], {"x": np.zeros(3)})


def test_unknown_intrinsic_is_named() -> None:
    x = placeholder((3,), F32, "x")
    y = compute((3,), lambda i: call("frobnicate", x[i]), "y")
    with pytest.raises(LoweringError, match="'frobnicate' has no NumPy meaning"):
        evaluate_tensors([y], {"x": np.zeros(3, np.float32)})
