"""Each construct of loop programs, made by hand, on the embedded device beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.dtypes import BF16, BOOL, F16, F32, I8, I32, I64, U8, DType
from tilewright.errors import CodegenError
from tilewright.expr import (
    Call,
    Expr,
    Var,
    binary,
    call,
    cast,
    const,
    logical_and,
    maximum,
    minimum,
    read,
    select,
)
from tilewright.loops.ir import (
    Allocate,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Kernel,
    LoopKind,
    Role,
    Stmt,
    Store,
    While,
    seq,
)

N, J, K = Var("i"), Var("j/0:x"), Var("for")


def kernel(body: Stmt, *params: Buffer, outputs: int = 1, name: str = "layer/1:relu") -> Kernel:
    """The last `outputs` parameters are written."""
    roles = [Role.IN] * (len(params) - outputs) + [Role.OUT] * outputs
    return Kernel(name, params, tuple(roles), body)


def loop(var: Var, extent: int, body: Stmt, kind: LoopKind = LoopKind.SERIAL, thread: str = "") -> For:
    return For(var, const(extent), body, kind, thread=thread)


def bound(var: Var, extent: int, body: Stmt, thread: str = "global.0") -> For:
    return loop(var, extent, body, LoopKind.BOUND, thread)


def elementwise(n: int, value: object, *dtypes: DType) -> Kernel:
    """out[i] = value(*inputs[i]); the last element type is the result's."""
    buffers = [Buffer(f"x{k}", dtype, (n,)) for k, dtype in enumerate(dtypes[:-1])]
    out = Buffer("out", dtypes[-1], (n,))
    body = Store(out, (N,), value(*(read(b, [N]) for b in buffers)))
    return kernel(bound(N, n, body), *buffers, out)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize(
    "name", ["exp", "log", "tanh", "sqrt", "erf", "floor", "ceil", "round", "sin", "cos", "rsqrt", "abs"]
)
def test_math(run_kernel, rng, name):
    x = rng.uniform(0.1, 4, 50).astype(np.float32)
    x[:4] = [0.5, 1.5, 2.5, 3.5]
    from math import erf

    meaning = {
        "round": np.rint,
        "erf": np.vectorize(erf),
        "rsqrt": lambda v: 1 / np.sqrt(v),
    }.get(name) or getattr(np, name)
    (out,) = run_kernel(elementwise(50, lambda a: call(name, a), F32, F32), x)
    np.testing.assert_allclose(out, meaning(x.astype(np.float64)), rtol=3e-7, atol=1e-7)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("form", ["variables", "constant", "vector"])
def test_extremes_hand_nan_on(run_kernel, op, form):
    values = np.array([np.nan, 1, -1, 2, np.inf, -np.inf, np.nan, 0], np.float32)
    other = np.array([0, np.nan, 3, -2, 1, 1, np.nan, np.nan], np.float32)
    if form == "constant":
        (out,) = run_kernel(elementwise(8, lambda a: binary(op, a, const(0.5, F32)), F32, F32), values)
        other = np.full(8, 0.5, np.float32)
    elif form == "variables":
        (out,) = run_kernel(elementwise(8, lambda a, b: binary(op, a, b), F32, F32, F32), values, other)
    else:
        a, b, out_buffer = (Buffer(n, F32, (8,)) for n in ("a", "b", "o"))
        body = Store(out_buffer, (N,), binary(op, read(a, [N]), read(b, [N])))
        (out,) = run_kernel(kernel(loop(N, 8, body, LoopKind.VECTORIZED), a, b, out_buffer), values, other)
    np.testing.assert_array_equal(out, (np.minimum if op == "min" else np.maximum)(values, other))


@pytest.mark.parametrize("dtype", [I8, U8, I32, I64])
@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_integer_division_rounds_down(run_kernel, dtype, op):
    a = np.array([7, 8, 120, 0, 5, 3], dtype.numpy)
    b = np.array([2, 3, 7, 5, 5, 100], dtype.numpy)
    if dtype.kind == "int":
        a[[0, 2]] *= -1
        b[1] *= -1
    (out,) = run_kernel(elementwise(6, lambda x, y: binary(op, x, y), dtype, dtype, dtype), a, b)
    np.testing.assert_array_equal(out, a // b if op == "floordiv" else a % b)


def test_narrow_integers_wrap(run_kernel):
    a = np.array([100, 127, -128], np.int8)
    (out,) = run_kernel(elementwise(3, lambda x: x + x, I8, I8), a)
    np.testing.assert_array_equal(out, a + a)


def test_casts(run_kernel):
    x = np.array([-1.9, 0, 2.5, 200.7, -0.0, 1e-3], np.float32)
    (out,) = run_kernel(elementwise(6, lambda a: cast(a, I32), F32, I32), x)
    np.testing.assert_array_equal(out, x.astype(np.int32))
    (out,) = run_kernel(elementwise(6, lambda a: cast(a, BOOL), F32, BOOL), x)
    np.testing.assert_array_equal(out, x != 0)
    (out,) = run_kernel(elementwise(6, lambda a: cast(a, F32), BOOL, F32), x != 0)
    np.testing.assert_array_equal(out, (x != 0).astype(np.float32))
    big = np.array([300, -1, 255, 256, 7, 0], np.int64)
    (out,) = run_kernel(elementwise(6, lambda a: cast(a, U8), I64, U8), big)
    np.testing.assert_array_equal(out, big.astype(np.uint8))


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_halves_are_stored_rounded_and_computed_in_float(run_kernel, rng, dtype):
    x = rng.normal(size=40).astype(dtype.numpy)
    (out,) = run_kernel(elementwise(40, lambda a: a * a + 1.0, dtype, dtype), x)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(out, (wide * wide + 1).astype(dtype.numpy))


def test_special_constants(run_kernel):
    for value in (float("inf"), float("-inf"), float("nan"), 0.1, -1e-42, 3.4e38):
        (out,) = run_kernel(
            elementwise(2, lambda a, v=value: select(a > 0.0, const(v, F32), a), F32, F32),
            np.ones(2, np.float32),
        )
        np.testing.assert_array_equal(out, np.full(2, np.float32(value)))
    low = -(2**63)
    (out,) = run_kernel(
        elementwise(2, lambda a: binary("max", a, const(low, I64)), I64, I64), np.full(2, low)
    )
    np.testing.assert_array_equal(out, [low, low])


def test_select_reads_only_the_chosen_side(run_kernel, rng):
    x, out = Buffer("x", F32, (5,)), Buffer("o", F32, (9,))
    inside = logical_and(N >= 2, N < 7)
    body = bound(N, 9, Store(out, (N,), select(inside, read(x, [N - 2]), const(0, F32))))
    data = rng.normal(size=5).astype(np.float32)
    (got,) = run_kernel(kernel(body, x, out), data)
    np.testing.assert_array_equal(got, np.pad(data, 2))


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16, 32])
def test_vector_loops_of_any_width(run_kernel, rng, lanes):
    """Unit stride, broadcast, stride two and a padded read, in one expression."""
    x, y, out = Buffer("x", F32, (3, 2 * lanes)), Buffer("y", F32, (3,)), Buffer("o", F32, (3, lanes))
    padded = select(J >= 1, read(x, [N, J - 1]), const(0, F32))
    value = read(x, [N, J]) * read(y, [N]) + read(x, [N, J * 2]) + padded
    body = bound(N, 3, loop(J, lanes, Store(out, (N, J), value), LoopKind.VECTORIZED))
    a, b = rng.normal(size=(3, 2 * lanes)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    (got,) = run_kernel(kernel(body, x, y, out), a, b)
    shifted = np.pad(a, ((0, 0), (1, 0)))[:, :lanes]
    np.testing.assert_allclose(got, a[:, :lanes] * b[:, None] + a[:, ::2] + shifted, rtol=1e-6, atol=1e-6)


def test_vector_select_by_value_and_by_uniform_condition(run_kernel, rng):
    x, out = Buffer("x", F32, (4, 8)), Buffer("o", F32, (4, 8))
    v = read(x, [N, J])
    leaky = select(logical_and(v > 0.0, v < 1.0), const(5, F32), const(-1, F32))
    value = select(N < 2, v, leaky)
    body = bound(N, 4, loop(J, 8, Store(out, (N, J), value), LoopKind.VECTORIZED))
    a = rng.normal(size=(4, 8)).astype(np.float32)
    (got,) = run_kernel(kernel(body, x, out), a)
    want = np.where((a > 0) & (a < 1), 5, -1).astype(np.float32)
    want[:2] = a[:2]
    np.testing.assert_array_equal(got, want)


def test_vector_store_with_a_stride(run_kernel, rng):
    x, out = Buffer("x", F32, (4,)), Buffer("o", F32, (4, 2))
    body = seq(
        loop(J, 4, Store(out, (J, const(0)), read(x, [J])), LoopKind.VECTORIZED),
        loop(J, 4, Store(out, (J, const(1)), call("tanh", read(x, [J]))), LoopKind.VECTORIZED),
    )
    a = rng.normal(size=4).astype(np.float32)
    (got,) = run_kernel(kernel(body, x, out), a)
    np.testing.assert_allclose(got, np.stack([a, np.tanh(a)], 1), rtol=3e-7)


@pytest.mark.parametrize("written_out", [True, False])
def test_matrix_product_with_accumulators_in_registers(run_kernel, rng, written_out):
    """Two rows by one vector in registers; the row index constant or a loop's variable."""
    a, b, out = Buffer("a", F32, (6, 5)), Buffer("b", F32, (5, 8)), Buffer("c", F32, (6, 8))
    acc = Buffer("acc", F32, (2, 8), "register")
    r, lane, k = Var("r"), Var("lane"), Var("k")

    def rows(make: object) -> Stmt:
        if written_out:
            return seq(make(const(0)), make(const(1)))
        return loop(r, 2, make(r))

    def over(make: object) -> object:
        return lambda row: loop(lane, 8, make(row), LoopKind.VECTORIZED)

    clear = over(lambda row: Store(acc, (row, lane), const(0, F32)))
    add_up = over(
        lambda row: Store(
            acc, (row, lane), read(acc, [row, lane]) + read(a, [N * 2 + row, k]) * read(b, [k, lane])
        )
    )
    write = over(lambda row: Store(out, (N * 2 + row, lane), read(acc, [row, lane])))
    body = bound(N, 3, Allocate(acc, seq(rows(clear), loop(k, 5, rows(add_up)), rows(write))))
    x, y = rng.normal(size=(6, 5)).astype(np.float32), rng.normal(size=(5, 8)).astype(np.float32)
    (got,) = run_kernel(kernel(body, a, b, out), x, y)
    np.testing.assert_allclose(got, x @ y, rtol=1e-5, atol=1e-6)


def test_scalar_registers_and_private_arrays(run_kernel, rng):
    x, out = Buffer("x", F32, (4, 6)), Buffer("o", F32, (4, 2))
    total, row = Buffer("total", F32, (1,), "register"), Buffer("row", F32, (6,), "local")
    zero = const(0)
    body = bound(
        N,
        4,
        Allocate(
            total,
            Allocate(
                row,
                seq(
                    Store(total, (zero,), const(0, F32)),
                    loop(J, 6, Store(row, (const(5) - J,), read(x, [N, J]))),
                    loop(K, 6, Store(total, (zero,), read(total, [zero]) + read(row, [K]))),
                    Store(out, (N, zero), read(total, [zero])),
                    Store(out, (N, const(1)), read(row, [zero])),
                ),
            ),
        ),
    )
    a = rng.normal(size=(4, 6)).astype(np.float32)
    (got,) = run_kernel(kernel(body, x, out), a)
    np.testing.assert_allclose(got, np.stack([a.sum(1), a[:, 5]], 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [1, 255, 256, 257, 1000])
def test_tree_reduction_with_barriers(run_kernel, rng, length):
    """One group of 64: a strided scan, then a tree in shared memory; every item meets every barrier."""
    items = 64
    x, out = Buffer("x", F32, (length,)), Buffer("o", F32, (1,))
    best = Buffer("best", F32, (items,), "shared")
    t, step = Var("t"), Var("step")
    barrier = Evaluate(Call("barrier", (), I32))
    at = N + t * items
    scan = loop(
        t,
        -(-length // items),
        If(at < length, Store(best, (N,), maximum(read(best, [N]), read(x, [at])))),
    )
    halves = []
    width = items // 2
    while width:
        other = read(best, [N + width])
        halves += [If(width > N, Store(best, (N,), maximum(read(best, [N]), other))), barrier]
        width //= 2
    inside = seq(
        Store(best, (N,), const(float("-inf"), F32)),
        scan,
        barrier,
        *halves,
        If(binary("eq", N, const(0)), Store(out, (const(0),), read(best, [const(0)]))),
    )
    body = Allocate(best, bound(step, 1, bound(N, items, inside, "local.0"), "group.0"))
    a = rng.normal(size=length).astype(np.float32)
    (got,) = run_kernel(kernel(body, x, out), a)
    np.testing.assert_array_equal(got, [a.max()])


def test_groups_with_a_guarded_tail(run_kernel, rng):
    x, out = Buffer("x", F32, (37, 3)), Buffer("o", F32, (37, 3))
    at = N * 8 + J
    store = Store(out, (at, K), read(x, [at, K]) + 1.0)
    body = bound(N, 5, bound(J, 8, If(at < 37, bound(K, 3, store, "group.1")), "local.0"), "group.0")
    a = rng.normal(size=(37, 3)).astype(np.float32)
    (got,) = run_kernel(kernel(body, x, out), a)
    np.testing.assert_array_equal(got, a + 1)


def test_local_index_is_right_after_a_branch_not_taken(run_kernel):
    """A remainder of the local index, after a loop that would never end but is not entered."""
    flag, out = Buffer("flag", I32, (1,)), Buffer("o", I32, (108,))
    stuck = While(binary("ne", read(flag, [const(0)]), const(0, I32)), Store(out, (const(0),), const(1, I32)))
    store = Store(out, (N * 54 + J,), cast(J % 36, I32))
    body = bound(N, 2, bound(J, 54, seq(stuck, store), "local.0"), "group.0")
    (got,) = run_kernel(kernel(body, flag, out), np.zeros(1, np.int32))
    np.testing.assert_array_equal(got, np.tile(np.arange(54) % 36, 2))


def test_phases_see_what_earlier_ones_wrote(run_kernel, rng):
    x, middle, out = Buffer("x", F32, (300,)), Buffer("m", F32, (300,)), Buffer("o", F32, (300,))
    first = bound(N, 300, Store(middle, (N,), read(x, [N]) * 2.0))
    second = loop(N, 300, Store(out, (N,), read(middle, [const(299) - N])), LoopKind.PARALLEL)
    a = rng.normal(size=300).astype(np.float32)
    both = Kernel("two", (x, middle, out), (Role.IN, Role.OUT, Role.OUT), Block((first, second)))
    m, got = run_kernel(both, a)
    np.testing.assert_array_equal(m, 2 * a)
    np.testing.assert_array_equal(got, 2 * a[::-1])


def test_while_counts_in_a_register(run_kernel):
    out, n = Buffer("o", I32, (1,)), Buffer("n", I32, (1,), "register")
    zero = const(0)
    turn = seq(
        Store(n, (zero,), read(n, [zero]) + 3),
    )
    body = Allocate(
        n,
        seq(
            Store(n, (zero,), const(0, I32)),
            While(read(n, [zero]) < 10, turn),
            Store(out, (zero,), read(n, [zero])),
        ),
    )
    (got,) = run_kernel(kernel(body, out))
    assert got.tolist() == [12]


def test_indices_beyond_32_bits_are_computed_wide(run_kernel):
    """x * 2^33 // 2^33 must not overflow on the way."""
    out = Buffer("o", I64, (6,))
    value: Expr = (N * (2**33) + 5) // const(2**33)
    (got,) = run_kernel(kernel(bound(N, 6, Store(out, (N,), value)), out))
    assert got.tolist() == [0, 1, 2, 3, 4, 5]


def test_negative_indices_divide_downwards(run_kernel):
    out = Buffer("o", I64, (6, 2))
    body = bound(
        N,
        6,
        seq(Store(out, (N, const(0)), (N - 3) // const(2)), Store(out, (N, const(1)), (N - 3) % const(4))),
    )
    (got,) = run_kernel(kernel(body, out))
    numbers = np.arange(6) - 3
    np.testing.assert_array_equal(got, np.stack([numbers // 2, numbers % 4], 1))


def test_empty_tensors_run_nothing(run_kernel):
    x, out = Buffer("x", F32, (0, 4)), Buffer("o", F32, (0, 4))
    body = bound(N, 0, loop(J, 4, Store(out, (N, J), read(x, [N, J]))))
    (got,) = run_kernel(kernel(body, x, out), np.zeros((0, 4), np.float32))
    assert got.shape == (0, 4)


def test_private_memory_around_bound_loops_is_refused(target, run_kernel):
    x, out, kept = Buffer("x", F32, (4,)), Buffer("o", F32, (4,)), Buffer("kept", F32, (4,), "local")
    body = Allocate(
        kept,
        seq(bound(N, 4, Store(kept, (N,), read(x, [N]))), bound(J, 4, Store(out, (J,), read(kept, [J])))),
    )
    with pytest.raises(CodegenError, match=r"kernel 'layer/1:relu': buffer 'kept' is private"):
        run_kernel(kernel(body, x, out), np.zeros(4, np.float32))


def test_unknown_intrinsics_and_threads_are_refused(run_kernel):
    with pytest.raises(CodegenError, match="intrinsic 'amx_tile'"):
        run_kernel(elementwise(4, lambda a: call("amx_tile", a), F32, F32), np.zeros(4, np.float32))
    out = Buffer("o", F32, (4,))
    body = bound(N, 4, Store(out, (N,), const(0, F32)), "warp.0")
    with pytest.raises(CodegenError, match=r"bound to 'warp.0'"):
        run_kernel(kernel(body, out))


def test_minimum_and_maximum_of_indices(run_kernel):
    out = Buffer("o", I64, (8,))
    body = bound(N, 8, Store(out, (N,), minimum(maximum(N - 2, const(0)), const(3))))
    (got,) = run_kernel(kernel(body, out))
    assert got.tolist() == [0, 0, 0, 1, 2, 3, 3, 3]
