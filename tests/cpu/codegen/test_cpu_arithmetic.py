"""Operators and casts of every element type on special values, scalar and vector, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tilewright.dtypes import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U32,
    U64,
    DType,
)
from tilewright.errors import CodegenError
from tilewright.expr import COMPARISONS, Expr, Var, add, binary, call, cast, const, mul, read
from tilewright.loops.ir import Block, Buffer, For, Kernel, LoopKind, Role, Store
from tilewright.machine import Machine

RNG = np.random.default_rng(11)
i, v = Var("i"), Var("v")
SIZE = 40
NUMBERS = [dtype for dtype in DTYPES.values() if not dtype.is_code]


Make = Callable[[Expr, Expr], Expr]


def elementwise(dtype: DType, result: DType, makes: Sequence[Make], lanes: int) -> Kernel:
    """y_m[n] = makes[m](a[n], b[n]) for all n, in vectors of `lanes` (1: scalar code)."""
    a, b = Buffer("a", dtype, (SIZE,)), Buffer("b", dtype, (SIZE,))
    outputs = [Buffer(f"y{m}", result, (SIZE,)) for m in range(len(makes))]
    at = add(mul(i, const(lanes)), v)
    pairs = zip(outputs, makes, strict=True)
    stores = Block(tuple(Store(y, (at,), make(read(a, (at,)), read(b, (at,)))) for y, make in pairs))
    inner = For(v, const(lanes), stores, LoopKind.VECTORIZED if lanes > 1 else LoopKind.SERIAL)
    roles = (Role.IN, Role.IN, *[Role.OUT] * len(makes))
    return Kernel("tested", (a, b, *outputs), roles, For(i, const(SIZE // lanes), inner))


def operators(*ops: str) -> list[Make]:
    return [lambda x, y, op=op: binary(op, x, y) for op in ops]


def zeros(dtype: DType, count: int) -> list[np.ndarray]:
    return [np.zeros(SIZE, dtype.numpy) for _ in range(count)]


def values(dtype: DType) -> np.ndarray:
    if dtype.is_float:
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 65504.0, 6e-8]
        drawn = RNG.normal(size=SIZE - len(special)) * 10
        with np.errstate(over="ignore"):
            return RNG.permutation(np.concatenate([special, drawn])).astype(dtype.numpy)
    if dtype == BOOL:
        return RNG.integers(0, 2, SIZE).astype(np.bool_)
    limits = np.iinfo(dtype.numpy)
    special = [limits.min, limits.max, 0, 1, limits.max - 1] + ([-1] if dtype.kind == "int" else [3])
    drawn = RNG.integers(max(limits.min, -9), 9, SIZE - len(special))
    return RNG.permutation(np.array([*special, *map(int, drawn)], dtype.numpy))


@pytest.mark.parametrize("lanes", [1, 5, 8])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_float_arithmetic(check, machine: Machine, dtype: DType, lanes: int) -> None:
    makes = operators("add", "sub", "mul", "div")
    check(elementwise(dtype, dtype, makes, lanes), machine, values(dtype), values(dtype), *zeros(dtype, 4))


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
def test_min_and_max_hand_nan_on(check, machine: Machine, dtype: DType, lanes: int) -> None:
    a, b = values(dtype), values(dtype)
    a[a == 0], b[b == 0] = 0.25, 0.25  # which zero of two different ones comes out is free
    bound = const(1.0, dtype)
    makes = operators("min", "max")
    makes += [lambda x, y, op=op: binary(op, x, bound) for op in ("min", "max")]
    makes += [lambda x, y, op=op: binary(op, bound, x) for op in ("min", "max")]
    check(elementwise(dtype, dtype, makes, lanes), machine, a, b, *zeros(dtype, 6))


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [F32, F16, I8, U8, I32, I64, U64, BOOL], ids=str)
def test_comparisons(check, machine: Machine, dtype: DType, lanes: int) -> None:
    a, b = values(dtype), values(dtype)
    b[:10] = a[:10]
    check(
        elementwise(dtype, BOOL, operators(*COMPARISONS), lanes),
        machine,
        a,
        b,
        *zeros(BOOL, len(COMPARISONS)),
    )


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [I8, I16, I32, I64, U8, U32, U64], ids=str)
def test_integers_wrap_and_division_never_traps(check, machine: Machine, dtype: DType, lanes: int) -> None:
    makes = operators("add", "sub", "mul", "min", "max", "and", "or", "xor", "floordiv", "mod")
    for divisor in (1, 3, 4, 7):
        makes += [lambda x, y, op=op, d=divisor: binary(op, x, const(d, dtype)) for op in ("floordiv", "mod")]
    kernel = elementwise(dtype, dtype, makes, lanes)
    check(kernel, machine, values(dtype), values(dtype), *zeros(dtype, len(makes)))


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [I8, I32, U8, U64], ids=str)
def test_shifts_by_any_amount(run, machine: Machine, dtype: DType, lanes: int) -> None:
    a = values(dtype)
    amounts = np.resize(np.arange(0, dtype.bits + 3), SIZE).astype(dtype.numpy)
    left, right = zeros(dtype, 2)
    run(elementwise(dtype, dtype, operators("shl", "shr"), lanes), machine, a, amounts, left, right)
    for found, python in ((left, lambda x, n: x << n), (right, lambda x, n: x >> n)):
        exact = [python(int(x), int(n)) % (1 << dtype.bits) for x, n in zip(a, amounts, strict=True)]
        signed = dtype.kind == "int"
        wrapped = [x - (1 << dtype.bits) if signed and x >> (dtype.bits - 1) else x for x in exact]
        np.testing.assert_array_equal(found, np.array(wrapped, dtype.numpy))


@pytest.mark.parametrize("lanes", [1, 8])
def test_truncating_division_of_integers(run, machine: Machine, lanes: int) -> None:
    a, b = (
        np.resize([7, -7, 9, -9], SIZE).astype(np.int32),
        np.resize([2, 2, -4, -4, 5], SIZE).astype(np.int32),
    )
    (found,) = zeros(I32, 1)
    run(elementwise(I32, I32, operators("div"), lanes), machine, a, b, found)
    np.testing.assert_array_equal(found, np.trunc(a / b).astype(np.int32))


@pytest.mark.parametrize("lanes", [1, 5, 8])
@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_casts_between_all_types(check, machine: Machine, source: DType, lanes: int) -> None:
    """One kernel a source type: a store for each target type. Numbers that do not fit have an answer too."""
    targets = [t for t in NUMBERS if t != source]
    inputs = [Buffer(f"a_{t}", source, (SIZE,)) for t in targets]
    outputs = [Buffer(f"y_{t}", t, (SIZE,)) for t in targets]
    at = add(mul(i, const(lanes)), v)
    stores = [
        Store(y, (at,), cast(read(a, (at,)), t)) for a, y, t in zip(inputs, outputs, targets, strict=True)
    ]
    inner = For(v, const(lanes), Block(tuple(stores)), LoopKind.VECTORIZED if lanes > 1 else LoopKind.SERIAL)
    roles = (*[Role.IN] * len(targets), *[Role.OUT] * len(targets))
    kernel = Kernel("casts", (*inputs, *outputs), roles, For(i, const(SIZE // lanes), inner))
    data = values(source)
    check(
        kernel,
        machine,
        *(data for _ in targets),
        *(np.zeros(SIZE, t.numpy) for t in targets),
    )


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("source", [F32, F64], ids=str)
def test_halves_round_once_to_nearest_even(run, machine: Machine, source: DType, dtype: DType) -> None:
    """Values on the middle between two halves and just beside it, denormals and overflow included."""
    x, y = Buffer("x", source, (4096,)), Buffer("y", dtype, (4096,))
    at = add(mul(i, const(8)), v)
    store = Store(y, (at,), cast(read(x, (at,)), dtype))
    body = For(i, const(512), For(v, const(8), store, LoopKind.VECTORIZED))
    low = RNG.integers(0, 0x7C00 if dtype == F16 else 0x7F80, 4096).astype(np.uint16)  # finite, positive
    near, above = (bits.view(dtype.numpy).astype(np.float64) for bits in (low, low + np.uint16(1)))
    above[np.isinf(above)] = 65536.0 if dtype == F16 else 2.0**128
    side = RNG.choice([-1, 0, 1], 4096)
    middle = (near + above) / 2
    data = (middle * (1 + side * 2.0 ** (-40 if source == F64 else -22))).astype(source.numpy)
    found = np.zeros(4096, dtype.numpy)
    run(Kernel("halves", (x, y), (Role.IN, Role.OUT), body), machine, data, found)
    exact = data.astype(np.float64)
    up = (exact > middle) | ((exact == middle) & (low % 2 == 1))
    wanted = np.where(up, low + 1, low).astype(np.uint16)
    np.testing.assert_array_equal(found.view(np.uint16), wanted)


@pytest.mark.parametrize("lanes", [1, 8])
def test_calls_on_integers(run, machine: Machine, lanes: int) -> None:
    a = values(I32)
    makes = [lambda x, y, name=name: call(name, x) for name in ("abs", "popcount", "floor")]
    found = zeros(I32, 3)
    run(elementwise(I32, I32, makes, lanes), machine, a, a, *found)
    bits = np.array([bin(int(x) & 0xFFFFFFFF).count("1") for x in a])
    for got, wanted in zip(found, (np.abs(a), bits, a), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_operators_that_a_type_lacks_are_refused(run, machine: Machine) -> None:
    a = values(F32)
    with pytest.raises(CodegenError, match="operator mod is not defined on f32"):
        run(elementwise(F32, F32, operators("mod"), 1), machine, a, a, *zeros(F32, 1))
    with pytest.raises(CodegenError, match="pow is not defined on i32"):
        run(elementwise(I32, I32, operators("pow"), 1), machine, values(I32), values(I32), *zeros(I32, 1))
    with pytest.raises(CodegenError, match="intrinsic 'bessel' has no code"):
        run(elementwise(F32, F32, [lambda x, y: call("bessel", x)], 1), machine, a, a, *zeros(F32, 1))
