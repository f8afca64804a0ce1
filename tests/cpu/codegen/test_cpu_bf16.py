"""bf16 in vectors: rounding with denormal numbers as zeros, and what needs no rounding."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernel_runs import AVX2, AVX512

from tilewright.dtypes import BF16, F32, DType
from tilewright.expr import Expr, Var, add, binary, call, cast, const, maximum, mul, read, select
from tilewright.loops.ir import Allocate, Buffer, For, Kernel, LoopKind, Role, Store, seq
from tilewright.machine import Machine
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.detect import from_features, host

FEATURES = {"instruction": AVX512 | {"avx512bf16"}, "avx512": AVX512, "avx2": AVX2}
SIZE = 960
i, v = Var("i"), Var("v")


@pytest.fixture(params=list(FEATURES))
def machine(request: pytest.FixtureRequest) -> Machine:
    missing = sorted(FEATURES[request.param] - set(host().features))
    if missing:
        pytest.skip(f"this processor has no {', '.join(missing)}")
    return from_features(request.param, FEATURES[request.param])


def elementwise(source: DType, lanes: int, make) -> Kernel:
    """y[n] = make(x[n]) in bf16, in vectors of `lanes` (1: scalar code)."""
    x, y = Buffer("x", source, (SIZE,)), Buffer("y", BF16, (SIZE,))
    at = add(mul(i, const(lanes)), v)
    kind = LoopKind.VECTORIZED if lanes > 1 else LoopKind.SERIAL
    inner = For(v, const(lanes), Store(y, (at,), make(read(x, (at,)))), kind)
    return Kernel("bf16", (x, y), (Role.IN, Role.OUT), For(i, const(SIZE // lanes), inner))


def rounded(x: Expr) -> Expr:
    return cast(call("flush", x), BF16)


def numbers() -> np.ndarray:
    """Half of them denormal, all exponents, infinities and NaN among the others."""
    bits = np.random.default_rng(5).integers(0, 2**32, SIZE, np.uint64).astype(np.uint32)
    bits[: SIZE // 2] &= np.uint32(0x807FFFFF)
    bits[-3:] = 0x7F800000, 0xFF800000, 0x7FC00000
    bits[-6:-3] = 0x00800000, 0x807FFFFF, 0x00000001  # the smallest normal number, denormal ones beside it
    return bits.view(np.float32)


@pytest.mark.parametrize("lanes", [1, 4, 8, 12, 16, 32])
def test_rounding_with_denormal_numbers_as_zeros(run, machine: Machine, lanes: int) -> None:
    x, found = numbers(), np.zeros(SIZE, BF16.numpy)
    run(elementwise(F32, lanes, rounded), machine, x, found)
    with np.errstate(invalid="ignore"):
        wanted = np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x).astype(BF16.numpy)
    number = ~np.isnan(x)
    assert np.isnan(found[~number].astype(np.float32)).all()
    np.testing.assert_array_equal(found[number].view(np.uint16), wanted[number].view(np.uint16))


def test_one_instruction_rounds(machine: Machine) -> None:
    text = kernel_text(elementwise(F32, 16, rounded), machine)
    assert ("cvtneps2bf16" in text) == machine.has("avx512bf16")
    assert "cvtneps2bf16" not in kernel_text(elementwise(F32, 16, lambda x: cast(x, BF16)), machine)


@pytest.mark.parametrize("lanes", [1, 16])
def test_copies_keep_every_bit(run, machine: Machine, lanes: int) -> None:
    kernel = elementwise(BF16, lanes, lambda x: x)
    assert "fcmp" not in kernel_text(kernel, machine)  # it rounds nothing
    bits = np.arange(SIZE, dtype=np.uint16) * np.uint16(68)
    bits[-2:] = 0x7F81, 0xFFC1  # a signalling and a quiet NaN
    x, found = bits.view(BF16.numpy), np.zeros(SIZE, BF16.numpy)
    run(kernel, machine, x, found)
    np.testing.assert_array_equal(found.view(np.uint16), bits)


@pytest.mark.parametrize(("number", "rounds"), [(0.0, False), (-1.5, False), (-np.inf, False), (0.1, True)])
def test_a_choice_is_rounded_for_a_literal_only(run, machine: Machine, number: float, rounds: bool) -> None:
    kernel = elementwise(BF16, 16, lambda x: select(binary("lt", v, const(3)), x, const(number, BF16)))
    assert ("fcmp" in kernel_text(kernel, machine)) == rounds
    x, found = np.ones(SIZE, BF16.numpy), np.zeros(SIZE, BF16.numpy)
    run(kernel, machine, x, found)
    np.testing.assert_array_equal(found, np.where(np.arange(SIZE) % 16 < 3, x, BF16.numpy.type(number)))


def test_the_larger_of_two_needs_no_rounding(check, machine: Machine) -> None:
    """y[n] = the largest of x[n], x[n + 1], x[n + 2], in a register between them."""
    x, y = Buffer("x", BF16, (18,)), Buffer("y", BF16, (16,))
    best = Buffer("best", BF16, (16,), "register")

    def vector(store: Store) -> For:
        return For(v, const(16), store, LoopKind.VECTORIZED)

    first = vector(Store(best, (v,), maximum(read(x, (v,)), read(x, (add(v, const(1)),)))))
    second = vector(Store(best, (v,), maximum(read(best, (v,)), read(x, (add(v, const(2)),)))))
    body = Allocate(best, seq(first, second, vector(Store(y, (v,), read(best, (v,))))))
    kernel = Kernel("largest", (x, y), (Role.IN, Role.OUT), body)
    assert len(re.findall("trunc ", kernel_text(kernel, machine))) == 1
    assert "add <16 x i32>" not in kernel_text(kernel, machine)
    data = np.array([1, -2, np.nan, 3, np.inf, -np.inf, 1e-40, -1e-40, 0, *range(9)], BF16.numpy)
    check(kernel, machine, data, np.zeros(16, BF16.numpy))
