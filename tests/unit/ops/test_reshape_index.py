"""Index arithmetic of Reshape, for any two shapes of equal size."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.dtypes import F32
from tilewright.expr import read
from tilewright.ops.movement import reshape_index
from tilewright.tensor.evaluate import evaluate_tensors
from tilewright.tensor.ir import compute, placeholder

FACTORS = st.lists(st.sampled_from([1, 2, 3, 5]), max_size=5)


def grouped(factors: list[int], cuts: list[bool]) -> tuple[int, ...]:
    """Neighbouring factors multiplied together where there is no cut between them."""
    shape: list[int] = []
    for factor, cut in zip(factors, cuts, strict=True):
        if cut or not shape:
            shape.append(factor)
        else:
            shape[-1] *= factor
    return tuple(shape)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_reshape(data: st.DataObject) -> None:
    factors = data.draw(FACTORS)
    marks = st.lists(st.booleans(), min_size=len(factors), max_size=len(factors))
    source = grouped(factors, data.draw(marks))
    target = grouped(data.draw(st.permutations(factors)), data.draw(marks))
    x = placeholder(source, F32, "x")
    y = compute(target, lambda *i: read(x, reshape_index(source, target, i)), "y")
    array = np.arange(prod(source), dtype=np.float32).reshape(source)
    np.testing.assert_array_equal(evaluate_tensors([y], {"x": array})[0], array.reshape(target))
