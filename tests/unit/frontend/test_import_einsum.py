"""Equations of Einsum as ONNX writes them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tilewright.errors import ImportModelError

Build = Callable[..., Any]
Run = Callable[..., dict[str, np.ndarray]]

EQUATIONS = [
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ji", [(2, 3)]),
    ("bA", [(2, 3)]),
    ("ii", [(3, 3)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    ("...ij,...jk->...ik", [(2, 5, 2, 3), (2, 5, 3, 4)]),
    ("...ij,...jk", [(5, 2, 3), (1, 3, 4)]),
    ("i...->...i", [(2, 3, 4)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("...,...->...", [(2, 3), (2, 3)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("abc,cd,bd,ae->de", [(2, 3, 4), (4, 5), (3, 5), (2, 6)]),
    ("i,j,k->kji", [(2,), (3,), (4,)]),
    ("...a,...b,ab->...", [(2, 3), (2, 4), (3, 4)]),
    ("ij,kl->", [(2, 3), (2, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS, ids=[e for e, _ in EQUATIONS])
def test_equations_mean_what_numpy_says(
    build: Build, run: Run, equation: str, shapes: list[tuple[int, ...]]
) -> None:
    draw = np.random.default_rng(0)
    operands = {f"x{i}": draw.standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)}
    node = helper.make_node("Einsum", list(operands), ["y"], name="e", equation=equation)
    found = run(build([node], operands, ["y"]), operands)["y"]
    expected = np.einsum(equation, *operands.values())
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("...,...->...", [(), (2, 3)], "ellipses"),
        ("...ik,...j->ij", [(1, 2, 3), (3,)], "ellipses|ellipsis"),
        ("ij,jk->ik", [(2, 3)], "2 terms for 1 operands"),
        ("ij->ij", [(2, 3, 4)], "rank 3"),
        ("ij,jk->ik", [(2, 3), (4, 2)], "extents 3 and 4"),
        ("i1->i", [(2, 3)], "expected letters"),
        ("ij->k", [(2, 3)], "repeated or unknown"),
        ("ij->ii", [(2, 3)], "repeated or unknown"),
        ("i......->i", [(2, 3)], "expected letters"),
    ],
)
def test_case_sh12_and_other_nonsense_is_refused(
    build: Build, run: Run, equation: str, shapes: list[tuple[int, ...]], message: str
) -> None:
    operands = {f"x{i}": np.ones(s, np.float32) for i, s in enumerate(shapes)}
    node = helper.make_node("Einsum", list(operands), ["y"], name="e", equation=equation)
    with pytest.raises(ImportModelError, match=message):
        run(build([node], operands, ["y"]), operands)


def test_ellipsis_that_the_result_lacks_is_summed(build: Build, run: Run) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    node = helper.make_node("Einsum", ["x"], ["y"], name="e", equation="i...j->j")
    found = run(build([node], {"x": x}, ["y"]), {"x": x})["y"]
    np.testing.assert_array_equal(found, x.sum(axis=(0, 1)))
