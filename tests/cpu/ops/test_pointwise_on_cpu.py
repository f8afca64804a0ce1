"""Every element-wise operator on every element type it has: generated code against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from pointwise_models import FLOATS, HALVES, INTEGERS, compiled, meaning, model, near

# Beside 17 elements a vector of 8 lanes leaves one over.
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e-4,
    -3e-3,
    20.0,
    -20.0,
    88.85,
    np.inf,
    -np.inf,
    np.nan,
]

UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "HardSwish",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "Celu",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "LeakyRelu",
    "Selu",
    "Swish",
    "Shrink",
    "IsNaN",
    "IsInf",
    "ThresholdedRelu",
]
COMPARED = [
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
]
ARITHMETIC = ["Add", "Sub", "Mul", "Div", "Max", "Min"]
BITS = ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def numbers(dtype: np.dtype[Any], seed: int = 0) -> np.ndarray:
    """Special values and small numbers, in an order of their own."""
    random = np.random.default_rng(seed)
    if dtype.kind not in "iu":
        drawn = random.standard_normal(16)
        with np.errstate(all="ignore"):
            return random.permutation([*SPECIAL, *drawn]).astype(dtype)
    limits = np.iinfo(dtype)
    special = [limits.min, limits.max, limits.max - 1, 0, 1, 2, 3, limits.max // 2]
    small = random.integers(max(limits.min, -9), 9, 25)
    return random.permutation(np.array([*special, *map(int, small)], dtype))


def check(nodes: list[Any], inputs: dict[str, np.ndarray], cache: Path, ulps: float = 8) -> None:
    data = model(nodes, inputs, {})
    found, wanted = compiled(data, inputs, cache), meaning(data, inputs)
    for node in nodes:
        near(found[node.output[0]], wanted[node.output[0]], ulps, node.output[0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_one_operand(dtype: np.dtype[Any], cache: Path) -> None:
    nodes = [helper.make_node(op, ["x"], [op]) for op in UNARY]
    check(nodes, {"x": numbers(dtype)}, cache, 1 if dtype in HALVES else 16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_two_operands(dtype: np.dtype[Any], cache: Path) -> None:
    nodes = [helper.make_node(op, ["a", "b"], [op]) for op in (*ARITHMETIC, *COMPARED, "Pow", "PRelu")]
    nodes += [helper.make_node("Mod", ["a", "b"], [f"Mod{fmod}"], fmod=fmod) for fmod in (0, 1)]
    nodes += [helper.make_node(op, ["a", "b", "a"], [f"{op}3"]) for op in ("Sum", "Mean", "Max", "Min")]
    check(nodes, {"a": numbers(dtype, 1), "b": numbers(dtype, 2)}, cache, 1 if dtype in HALVES else 8)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype: np.dtype[Any], cache: Path) -> None:
    a, b = numbers(dtype, 3), numbers(dtype, 4)
    nodes = [helper.make_node(op, ["a", "b"], [op]) for op in (*ARITHMETIC, *COMPARED, *BITS, "Mod")]
    nodes.append(helper.make_node("Mod", ["a", "b"], ["fmod"], fmod=1))
    nodes += [helper.make_node(op, ["a"], [op]) for op in ("Abs", "Sign", "BitwiseNot")]
    nodes += [
        helper.make_node("BitShift", ["a", "b"], [direction], direction=direction)
        for direction in ("LEFT", "RIGHT")
    ]
    nodes.append(helper.make_node("Clip", ["a", "low", "high"], ["Clip"]))
    if dtype.kind == "i":
        nodes += [helper.make_node(op, ["a"], [op]) for op in ("Neg", "Relu")]
    low, high = np.array(2, dtype), np.array(100, dtype)
    check(nodes, {"a": a, "b": b, "low": low, "high": high}, cache)


def test_booleans(cache: Path) -> None:
    a = np.array([True, True, False, False] * 5)
    b = np.array([True, False] * 10)
    nodes = [helper.make_node(op, ["a", "b"], [op]) for op in ("And", "Or", "Xor", "Equal")]
    nodes.append(helper.make_node("Not", ["a"], ["Not"]))
    nodes.append(helper.make_node("Where", ["a", "b", "a"], ["Where"]))
    check(nodes, {"a": a, "b": b}, cache)


EDGES = [0, -0.0, 0.4, 2.9, -2.9, 100.5, -1, 300, -129, 65504, 65519, 65520, 1e-8, 2049, 3e9, -3e9, 3.4e38]
POWERS = [sign * 2.0**power for power in (7, 15, 31, 32, 63, 64) for sign in (1, -1)]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, np.dtype(bool)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_casts(dtype: np.dtype[Any], cache: Path) -> None:
    """EW7: to every type, numbers that do not fit too; the same when the operand is a constant."""
    if dtype.kind == "b":
        x = np.array([True, False] * 9)
    else:
        real = [*EDGES, *POWERS, np.nan, np.inf, -np.inf]
        x = numbers(dtype, 5) if dtype.kind in "iu" else np.array(real).astype(dtype)
    targets = [t for t in (*FLOATS, *INTEGERS, np.dtype(bool)) if t != dtype]
    nodes = [
        helper.make_node("Cast", [name], [f"{name}-{t}"], to=helper.np_dtype_to_tensor_dtype(t))
        for t in targets
        for name in ("x", "c")
    ]
    data = model(nodes, {"x": x}, {"c": x})
    found, wanted = compiled(data, {"x": x}, cache), meaning(data, {"x": x})
    for target in targets:
        near(found[f"x-{target}"], wanted[f"x-{target}"], 0, str(target))
        near(found[f"c-{target}"], wanted[f"x-{target}"], 0, str(target))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, np.dtype(bool)], ids=str)
def test_broadcasting(dtype: np.dtype[Any], cache: Path) -> None:
    """EW16, and both operands broadcast at once."""
    op = "Xor" if dtype.kind == "b" else "Sub"
    row, column, one = (
        np.arange(n).reshape(shape).astype(dtype) for n, shape in ((9, (9,)), (4, (4, 1)), (1, ()))
    )
    nodes = [helper.make_node(op, pair, ["-".join(pair)]) for pair in (["row", "column"], ["column", "one"])]
    check(nodes, {"row": row, "column": column, "one": one}, cache)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_remainders_of_any_two_numbers_are_exact(dtype: np.dtype[Any], cache: Path) -> None:
    """Quotients have up to 2**2000: nothing but long division is exact."""
    random = np.random.default_rng(8)
    a, b = (np.frombuffer(random.bytes(500 * dtype.itemsize), dtype) for _ in range(2))
    smallest = np.finfo(dtype).smallest_subnormal
    a, b = np.append(a, [1e30, 7 * smallest, -smallest]), np.append(b, [3 * smallest, 2 * smallest, np.inf])
    inputs = {"a": a.astype(dtype), "b": b.astype(dtype)}
    node = helper.make_node("Mod", ["a", "b"], ["y"], fmod=1)
    found = compiled(model([node], inputs, {}), inputs, cache)["y"]
    np.testing.assert_array_equal(found, np.fmod(inputs["a"], inputs["b"]))
