"""The generic template on expressions of every kind: what it chooses, and that the device computes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tilewright.dtypes import F32, I32
from tilewright.expr import call, cast, const, maximum, select
from tilewright.lower.kernel import lower_group
from tilewright.lower.target import Group
from tilewright.storage import PLAIN, Storage
from tilewright.targets.opencl.schedules.generic import schedule_generic
from tilewright.tensor.evaluate import evaluate_tensors
from tilewright.tensor.ir import Tensor, compute, max_over, placeholder, reduce_axis, sum_over
from tilewright.types import TensorType


def group_of(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    storages: Sequence[Storage] = (),
    anchor_op: str = "Add",
) -> Group:
    kinds = [*storages, *[PLAIN] * (len(inputs) - len(storages))]
    input_types = tuple(TensorType(t.dtype, t.shape, s) for t, s in zip(inputs, kinds, strict=True))
    output_types = tuple(TensorType(t.dtype, t.shape) for t in outputs)
    return Group("g", tuple(inputs), input_types, tuple(outputs), output_types, outputs[0], anchor_op)


@pytest.fixture
def check(run_kernel):
    """Schedules, runs and compares with the NumPy meaning; returns the name of the template."""

    def run(group: Group, rtol: float = 2e-6) -> str:
        rng = np.random.default_rng(3)
        feeds = {t.name: rng.normal(size=t.shape).astype(t.dtype.numpy) for t in group.inputs}
        expected = evaluate_tensors(group.outputs, feeds)
        choice = schedule_generic(group)
        kernel = lower_group(group, choice)
        packed = [s.storage.pack(feeds[t.name]) for t, s in zip(group.inputs, group.input_types, strict=True)]
        found = run_kernel(kernel, *packed)
        for result, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(result.reshape(want.shape), want, rtol, 1e-5)
        return choice.template

    return run


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 8), (2, 3, 4, 5, 6), (0, 4)])
def test_elementwise(check, shape):
    a, b = placeholder(shape, F32, "a"), placeholder(shape, F32, "b")
    middle = compute(shape, lambda *i: a[i] * b[i], "middle")
    out = compute(shape, lambda *i: maximum(middle[i] + a[i], const(0, F32)), "out")
    assert check(group_of([a, b], [out])) == "generic"


def test_transposed_reads(check):
    a = placeholder((8, 4, 6), F32, "a")
    check(group_of([a], [compute((6, 8, 4), lambda i, j, k: a[j, k, i], "out")]))


@pytest.mark.parametrize("rows", [(1, 1000), (3, 7), (300,)])
def test_softmax_over_the_last_axis(check, rows):
    x = placeholder(rows, F32, "x")
    r, q = reduce_axis(rows[-1], "r"), reduce_axis(rows[-1], "q")
    high = compute(rows[:-1], lambda *i: max_over(x[(*i, r)], r), "high")
    power = compute(rows, lambda *i: call("exp", x[i] - high[i[:-1]]), "power")
    total = compute(rows[:-1], lambda *i: sum_over(power[(*i, q)], q), "total")
    out = compute(rows, lambda *i: power[i] / total[i[:-1]], "out")
    assert check(group_of([x], [out])) == "generic"


def test_normalisation_over_the_middle_axis(check):
    x = placeholder((2, 70, 3), F32, "x")
    r = reduce_axis(70, "r")
    total = compute((2, 3), lambda n, w: sum_over(x[n, r, w] * x[n, r, w], r), "total")
    out = compute((2, 70, 3), lambda n, c, w: x[n, c, w] / call("sqrt", total[n, w]), "out")
    check(group_of([x], [out]))


@pytest.mark.parametrize("terms", [3, 64, 65, 997])
def test_a_sum_of_everything(check, terms):
    x = placeholder((terms,), F32, "x")
    r = reduce_axis(terms, "r")
    check(group_of([x], [compute((), lambda: sum_over(x[r], r), "out")]))


@pytest.mark.parametrize(("m", "n", "k"), [(5, 16, 100), (3, 7, 5), (1, 10, 130)])
def test_matrix_product_with_epilogue(check, m, n, k):
    a, b, bias = placeholder((m, k), F32, "a"), placeholder((k, n), F32, "b"), placeholder((n,), F32, "bias")
    r = reduce_axis(k, "r")
    product = compute((m, n), lambda i, j: sum_over(a[i, r] * b[r, j], r), "product")
    out = compute((m, n), lambda i, j: maximum(product[i, j] + bias[j], const(0, F32)), "out")
    check(group_of([a, b, bias], [out]))


@pytest.mark.parametrize(("stride", "width"), [(1, 14), (2, 9), (1, 13)])
@pytest.mark.parametrize("packed", [True, False])
def test_padded_convolution(check, stride, width, packed):
    x, w = placeholder((1, 5, 6, width), F32, "x"), placeholder((16, 5, 3, 3), F32, "w")
    p, q, c = reduce_axis(3, "p"), reduce_axis(3, "q"), reduce_axis(5, "c")

    def term(n, o, i, j):
        row, column = i + p.var - 1, j * stride + q.var - 1
        inside = (row >= 0, row < 6, column >= 0, column < width)
        value = x[n, c, row, column]
        for condition in inside:
            value = select(condition, value, const(0, F32))
        return sum_over(value * w[o, c, p, q], p, q, c)

    conv = compute((1, 16, 6, (width - 1) // stride + 1), term, "conv")
    residual = placeholder(conv.shape, F32, "residual")
    out = compute(conv.shape, lambda n, *i: conv[(n, *i)] + residual[(n, *i)], "out")
    storages = [PLAIN, Storage("Acdb8a")] if packed else []
    assert check(group_of([x, w, residual], [out], storages, "Conv")) == "generic"


def test_two_outputs_that_share_a_sum_are_computed_by_one_item(check):
    x = placeholder((4, 6), F32, "x")
    r = reduce_axis(6, "r")
    total = compute((4,), lambda i: sum_over(x[i, r], r), "total")
    first = compute((4,), lambda i: total[i] + 1.0, "first")
    second = compute((4, 6), lambda i, j: x[i, j] - total[i], "second")
    assert check(group_of([x], [first, second])) == "serial"


def test_an_output_that_another_one_reads(check):
    x = placeholder((4, 8), F32, "x")
    first = compute((4, 8), lambda i, j: x[i, j] * 2.0, "first")
    second = compute((4, 8), lambda i, j: first[i, j] + x[3 - i, j], "second")
    assert check(group_of([x], [first, second])) == "generic"


def test_integers_are_not_tiled(check):
    x = placeholder((4, 8), F32, "x")
    out = compute((4, 8), lambda i, j: cast(x[i, j] * 10.0, I32), "out")
    check(group_of([x], [out]))
