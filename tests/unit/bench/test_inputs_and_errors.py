"""Seeded inputs, and the error against a float64 reference."""

import math

import numpy as np
import pytest

from tilewright_bench.engines.base import Tensor
from tilewright_bench.errors_against import error_against
from tilewright_bench.inputs import seeded_inputs


def test_inputs_depend_on_seed_and_name_only() -> None:
    a, b = (Tensor(name, np.dtype(np.float32), (3, 5)) for name in "ab")
    both, swapped = seeded_inputs([a, b], 1), seeded_inputs([b, a], 1)
    np.testing.assert_array_equal(both["a"], swapped["a"])
    assert not np.array_equal(both["a"], both["b"])
    assert not np.array_equal(both["a"], seeded_inputs([a], 2)["a"])


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]
)
def test_values_fit_the_element_type(dtype: str) -> None:
    value = seeded_inputs([Tensor("x", np.dtype(dtype), (64,))])["x"]
    assert (value.dtype, value.shape) == (np.dtype(dtype), (64,))
    if np.issubdtype(value.dtype, np.integer):
        assert value.min() >= 0
        assert value.max() < 1000


def test_error_is_the_worst_output() -> None:
    reference = {"y": np.array([3.0, 4.0]), "z": np.array([1.0, 0.0])}
    error = error_against({"y": np.array([3.0, 4.5]), "z": np.array([1.0, 0.01])}, reference)
    assert error.l2_rel_err == pytest.approx(0.1)
    assert error.max_abs_err == pytest.approx(0.5)


def test_infinities_and_nans_must_stand_where_the_reference_has_them() -> None:
    reference = {"y": np.array([np.inf, np.nan, 2.0])}
    assert error_against({"y": np.array([np.inf, np.nan, 2.0])}, reference).l2_rel_err == 0
    assert math.isinf(error_against({"y": np.array([np.inf, 1.0, 2.0])}, reference).l2_rel_err)


def test_missing_outputs_and_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="outputs"):
        error_against({}, {"y": np.ones(2)})
    with pytest.raises(ValueError, match="shape"):
        error_against({"y": np.ones(3)}, {"y": np.ones(2)})
