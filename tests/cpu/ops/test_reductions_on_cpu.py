"""Reductions and matrix products of every element type: generated code against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from pointwise_models import FLOATS, HALVES, INTEGERS, compiled, meaning, model, near

PLAIN = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"]
COMPOSITE = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"]
WIDE = tuple(dtype for dtype in INTEGERS if dtype.itemsize >= 4)
AXES = {"all": [], "rows": [1], "outer": [0, 2], "last": [-1]}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def values(dtype: np.dtype[Any], *shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng([seed, *shape])
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -20, 20, shape).astype(dtype)
    return (random.standard_normal(shape) * 2).astype(dtype)


def check(nodes: Sequence[Any], inputs: dict[str, np.ndarray], cache: Path, ulps: float) -> None:
    constants = {f"axes_{name}": np.array(axes, np.int64) for name, axes in AXES.items()}
    data = model(nodes, inputs, constants)
    found, wanted = compiled(data, inputs, cache), meaning(data, inputs)
    for node in nodes:
        near(found[node.output[0]], wanted[node.output[0]], ulps, node.output[0])


def reductions(ops: Sequence[str], keepdims: int) -> list[Any]:
    return [
        helper.make_node(op, ["x", f"axes_{name}"], [f"{op}.{name}"], keepdims=keepdims)
        for op in ops
        for name in AXES
    ]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_reductions_of_floats(dtype: np.dtype[Any], keepdims: int, cache: Path) -> None:
    x = np.abs(values(dtype, 3, 5, 11)) + np.asarray(0.25, dtype)
    check(reductions([*PLAIN, *COMPOSITE], keepdims), {"x": x}, cache, 1 if dtype in HALVES else 64)


@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(2, 3, 17), (33, 4), (3, 1, 40), (1, 64), (9, 3)])
def test_extrema_of_all_elements(shape: tuple[int, ...], special: float | None, cache: Path) -> None:
    """By columns, tails included."""
    x = values(np.dtype(np.float32), *shape)
    if special is not None:
        x.flat[-2] = special
    nodes = [helper.make_node(op, ["x"], [op], keepdims=0) for op in ("ReduceMax", "ReduceMin")]
    found = compiled(model(nodes, {"x": x}, {}), {"x": x}, cache)
    np.testing.assert_array_equal(found["ReduceMax"], x.max())
    np.testing.assert_array_equal(found["ReduceMin"], x.min())


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_reductions_of_integers_wrap(dtype: np.dtype[Any], cache: Path) -> None:
    """Narrow types too, which graphs may hold although ONNX has no such reductions."""
    x = values(dtype, 3, 5, 11)
    x[0, 0, 0] = np.iinfo(dtype).max
    exact = ["ReduceL1", "ReduceSumSquare"]
    check(reductions([*PLAIN, *exact], 0), {"x": x}, cache, 0)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_real_functions_of_integers_truncate(dtype: np.dtype[Any], cache: Path) -> None:
    x = np.abs(values(dtype, 3, 5, 11))
    check(reductions(["ReduceL2", "ReduceLogSumExp"], 1), {"x": x}, cache, 0)


def test_booleans_have_extremes(cache: Path) -> None:
    x = np.random.default_rng(3).integers(0, 2, (3, 5, 11)).astype(bool)
    check(reductions(["ReduceMax", "ReduceMin"], 1), {"x": x}, cache, 0)


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int32), np.dtype(np.uint8)], ids=str)
def test_reducing_nothing_gives_the_identity(dtype: np.dtype[Any], cache: Path) -> None:
    x = np.zeros((3, 0, 2), dtype)
    ops = [*PLAIN, *(COMPOSITE if dtype.kind not in "iu" else [])]
    nodes = [helper.make_node(op, ["x", "axes_rows"], [op], keepdims=0) for op in ops]
    check(nodes, {"x": x}, cache, 1)


@pytest.mark.parametrize("op", [*PLAIN, *COMPOSITE])
def test_nan_is_handed_on_from_every_place(op: str, cache: Path) -> None:
    x = np.ones((20, 19), np.float32)
    x[np.arange(19), np.arange(19)] = np.nan
    x[19] = 2
    data = model(
        [helper.make_node(op, ["x", "axes_last"], ["y"], keepdims=0)], {"x": x}, {"axes_last": np.array([-1])}
    )
    y = compiled(data, {"x": x}, cache)["y"]
    assert np.isnan(y[:19]).all()
    assert np.isfinite(y[19])


@pytest.mark.parametrize("dtype", [*FLOATS, *WIDE], ids=str)
def test_products(dtype: np.dtype[Any], cache: Path) -> None:
    """MM2: ranks, empty operands and broadcast stacks; Gemm with every transposition."""
    pairs = [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((3,), (4, 3, 2)),
        ((0, 2), (2,)),
        ((2, 0), (0, 3)),
        ((17, 33), (33, 19)),
    ]
    inputs = {}
    nodes = []
    for number, (left, right) in enumerate(pairs):
        inputs |= {f"a{number}": values(dtype, *left, seed=1), f"b{number}": values(dtype, *right, seed=2)}
        nodes.append(helper.make_node("MatMul", [f"a{number}", f"b{number}"], [f"y{number}"]))
    inputs |= {
        "row": values(dtype, 5),
        "a": values(dtype, 4, 4),
        "b": values(dtype, 4, 5),
        "bt": values(dtype, 5, 4),
    }
    factor = 2.0 if dtype.kind in "iu" else 0.5
    for flips in ((0, 0), (0, 1), (1, 0), (1, 1)):
        operands = ["a", "bt" if flips[1] else "b", "row"]
        attrs = {"transA": flips[0], "transB": flips[1], "alpha": factor, "beta": 3.0}
        nodes.append(helper.make_node("Gemm", operands, [f"gemm{flips}"], **attrs))
    nodes.append(helper.make_node("Gemm", ["a", "b"], ["half"], alpha=0.5))
    check(nodes, inputs, cache, 2 if dtype in HALVES else 256)


def test_constant_weights_of_every_type(cache: Path) -> None:
    """Weights as constants take the packed path of f32, and must not of any other type."""
    for dtype in (*FLOATS, *WIDE):
        x, w = values(dtype, 9, 40), values(dtype, 40, 36, seed=4)
        data = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": x}, {"w": w})
        near(compiled(data, {"x": x}, cache)["y"], meaning(data, {"x": x})["y"], 512, str(dtype))
