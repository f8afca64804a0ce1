"""Math functions against extended precision, on random and special values, for every profile."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.dtypes import F32, F64, DType
from tilewright.expr import Expr, Var, add, call, const, mul, read
from tilewright.loops.ir import Block, Buffer, For, Kernel, LoopKind, Role, Store
from tilewright.machine import Machine

SIZE = 2048
i, v = Var("i"), Var("v")
wide = np.longdouble


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(float(t)) for t in x], wide)


# name: (reference in extended precision, range of random arguments, for f32 and f64, ulp allowed)
FUNCTIONS: dict[
    str, tuple[Callable[[np.ndarray], np.ndarray], tuple[float, float], tuple[float, float], float]
] = {
    "exp": (np.exp, (-105, 90), (-750, 712), 1.5),
    "tanh": (np.tanh, (-11, 11), (-21, 21), 2.0),
    "log": (np.log, (0, 100), (0, 1000), 1.5),
    "erf": (_erf, (-4.5, 4.5), (-6.5, 6.5), 2.5),
    "sin": (np.sin, (-1e5, 1e5), (-1e5, 1e5), 3.0),
    "cos": (np.cos, (-1e5, 1e5), (-1e5, 1e5), 3.0),
    "floor": (np.floor, (-1e6, 1e6), (-1e12, 1e12), 0.0),
    "ceil": (np.ceil, (-1e6, 1e6), (-1e12, 1e12), 0.0),
    "round": (np.rint, (-50, 50), (-50, 50), 0.0),
    "sqrt": (np.sqrt, (0, 1e6), (0, 1e6), 0.51),
    "abs": (np.abs, (-9, 9), (-9, 9), 0.0),
}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 0.625, -0.625, 2.0, 20.0]
SPECIAL += [1e-40, -1e-40, 1e-45, 5e-324, 88.72, 88.73, -103.9, -104.1, 709.7, 709.9, -745.1, -745.2, 3.4e38]


def kernel_of(names: list[str], dtype: DType, lanes: int) -> Kernel:
    """y_name[n] = name(x_name[n]) for every name."""
    inputs, outputs = ([Buffer(f"{p}_{n}", dtype, (SIZE,)) for n in names] for p in "xy")
    at = add(mul(i, const(lanes)), v)

    def value(name: str, x: Buffer) -> Expr:
        return call(name, read(x, (at,)))

    triples = zip(names, inputs, outputs, strict=True)
    stores = Block(tuple(Store(y, (at,), value(name, x)) for name, x, y in triples))
    inner = For(v, const(lanes), stores, LoopKind.VECTORIZED if lanes > 1 else LoopKind.SERIAL)
    roles = (*[Role.IN] * len(names), *[Role.OUT] * len(names))
    return Kernel("math", (*inputs, *outputs), roles, For(i, const(SIZE // lanes), inner))


def arguments(name: str, dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(len(name))
    low, high = FUNCTIONS[name][1 if dtype == F32 else 2]
    tiny = 10.0 ** rng.uniform(-44 if dtype == F32 else -300, 0, 300)
    drawn = np.concatenate([SPECIAL, tiny, rng.normal(size=700), rng.uniform(low, high, SIZE)])
    with np.errstate(over="ignore"):
        return drawn[:SIZE].astype(dtype.numpy)


def assert_close(found: np.ndarray, exact: np.ndarray, arguments: np.ndarray, ulp: float, what: str) -> None:
    """Equal where the rounded exact value is 0, infinite or NaN.

    Elsewhere within `ulp` units in its last place.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        usual = np.isfinite(rounded) & (rounded != 0)
        error = np.abs(found.astype(wide) - exact) / np.spacing(np.abs(rounded)).astype(wide)
    np.testing.assert_array_equal(found[~usual], rounded[~usual], err_msg=f"{what} at {arguments[~usual]}")
    worst = int(np.argmax(np.where(usual, error, 0)))
    assert error[worst] <= ulp, (
        f"{what}({arguments[worst]!r}) = {found[worst]!r}, off by {float(error[worst]):.2f} ulp"
    )


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_are_accurate_everywhere(run, machine: Machine, dtype: DType, lanes: int) -> None:
    names = list(FUNCTIONS)
    inputs = [arguments(name, dtype) for name in names]
    outputs = [np.zeros(SIZE, dtype.numpy) for _ in names]
    run(kernel_of(names, dtype, lanes), machine, *inputs, *outputs)
    for name, x, y in zip(names, inputs, outputs, strict=True):
        reference, *_, ulp = FUNCTIONS[name]
        keep = (
            np.isnan(x) | ~np.isfinite(x) | (np.abs(x) <= 1e5)
            if name in ("sin", "cos")
            else np.full(SIZE, True)
        )
        assert_close(y[keep], reference(x[keep].astype(wide)), x[keep], ulp, f"{dtype} {name}")


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pow(run, machine: Machine, dtype: DType, lanes: int) -> None:
    """Random pairs, then all pairs of special values, where NumPy in the type itself gives C's results."""
    rng = np.random.default_rng(5)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e30, -1e30], dtype.numpy
    )
    pairs = np.array([(a, b) for a in special for b in special], dtype.numpy)
    base, exponent = rng.uniform(0, 10, SIZE), rng.uniform(-30, 30, SIZE)
    base[:500], exponent[:500] = rng.uniform(-10, 10, 500), rng.integers(-9, 9, 500)
    x, y = base.astype(dtype.numpy), exponent.astype(dtype.numpy)
    x[-len(pairs) :], y[-len(pairs) :] = pairs[:, 0], pairs[:, 1]
    a, b, c = (Buffer(name, dtype, (SIZE,)) for name in "abc")
    at = add(mul(i, const(lanes)), v)
    store = Store(c, (at,), call("pow", read(a, (at,)), read(b, (at,))))
    inner = For(v, const(lanes), store, LoopKind.VECTORIZED if lanes > 1 else LoopKind.SERIAL)
    kernel = Kernel("pow", (a, b, c), (Role.IN, Role.IN, Role.OUT), For(i, const(SIZE // lanes), inner))
    found = np.zeros(SIZE, dtype.numpy)
    run(kernel, machine, x, y, found)
    drawn = slice(0, SIZE - len(pairs))
    exact = np.power(x[drawn].astype(wide), y[drawn].astype(wide))
    assert_close(found[drawn], exact, x[drawn], 4.0, f"{dtype} pow")
    np.testing.assert_allclose(
        found[-len(pairs) :], np.power(pairs[:, 0], pairs[:, 1]), rtol=1e-6 if dtype == F32 else 1e-14
    )


def test_fma_and_rsqrt(run, machine: Machine) -> None:
    a, y, z = Buffer("a", F64, (16,)), Buffer("y", F64, (16,)), Buffer("z", F64, (16,))
    x = read(a, (v,))
    body = For(
        v,
        const(16),
        Block((Store(y, (v,), call("fma", x, x, const(1.0, F64))), Store(z, (v,), call("rsqrt", x)))),
        LoopKind.VECTORIZED,
    )
    data = np.linspace(0.5, 9, 16)
    squares, roots = np.zeros(16), np.zeros(16)
    run(Kernel("calls", (a, y, z), (Role.IN, Role.OUT, Role.OUT), body), machine, data, squares, roots)
    np.testing.assert_allclose(squares, data * data + 1, rtol=1e-15)
    np.testing.assert_allclose(roots, 1 / np.sqrt(data), rtol=1e-15)
