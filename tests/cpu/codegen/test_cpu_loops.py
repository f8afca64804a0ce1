"""Statements: every kind of loop, branches, local and register buffers, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.dtypes import BF16, F16, F32, I32, I64, U8
from tilewright.errors import CodegenError
from tilewright.expr import (
    Expr,
    Var,
    add,
    binary,
    cast,
    const,
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    read,
    select,
)
from tilewright.loops.ir import Allocate, Buffer, For, If, Kernel, LoopKind, Role, Stmt, Store, While, seq
from tilewright.machine import Machine

RNG = np.random.default_rng(7)
i, j, k, v = (Var(n) for n in "ijkv")


def vector(lanes: int, body: Stmt) -> Stmt:
    return For(v, const(lanes), body, LoopKind.VECTORIZED)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def kernel(body: Stmt, *params: Buffer, last: Role = Role.OUT) -> Kernel:
    return Kernel("tested", params, (*[Role.IN] * (len(params) - 1), last), body)


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.PARALLEL, LoopKind.VECTORIZED])
@pytest.mark.parametrize("extent", [1, 5, 8])
def test_every_kind_of_loop(check, machine: Machine, kind: LoopKind, extent: int) -> None:
    x, y = Buffer("x", F32, (extent,)), Buffer("y", F32, (extent,))
    body = For(
        v, const(extent), Store(y, (v,), add(mul(read(x, (v,)), const(2.0, F32)), const(1.0, F32))), kind
    )
    check(kernel(body, x, y), machine, floats(extent), floats(extent), threads=2)


@pytest.mark.parametrize("lanes", [2, 3, 5, 8, 16, 64])
def test_vectors_of_any_length_and_a_tail(check, machine: Machine, lanes: int) -> None:
    n = 2 * lanes + 1
    x, y = Buffer("x", F32, (3, n)), Buffer("y", F32, (3, n))
    at = add(mul(j, const(lanes)), v)
    whole = For(j, const(2), vector(lanes, Store(y, (i, at), mul(read(x, (i, at)), read(x, (i, j))))))
    tail = Store(y, (i, const(n - 1)), read(x, (i, const(n - 1))))
    check(kernel(For(i, const(3), seq(whole, tail)), x, y), machine, floats(3, n), floats(3, n))


def test_loops_with_starts_and_extents_that_are_expressions(check, machine: Machine) -> None:
    x, y = Buffer("x", I32, (6, 6)), Buffer("y", I32, (6, 6))
    triangle = For(j, add(const(6), mul(i, const(-1))), Store(y, (i, j), read(x, (i, j))), start=i)
    never = For(j, add(i, const(-9)), Store(y, (i, j), const(-1, I32)))
    start = np.zeros((6, 6), np.int32)
    result = check(
        kernel(For(i, const(6), seq(triangle, never)), x, y, last=Role.INOUT),
        machine,
        RNG.integers(1, 99, (6, 6)).astype(np.int32),
        start,
    )
    assert np.count_nonzero(result[1]) == 21


def test_extent_read_from_memory(check, machine: Machine) -> None:
    n, y = Buffer("n", I64, (1,)), Buffer("y", F32, (8,))
    body = For(i, read(n, (const(0),)), Store(y, (i,), cast(mul(i, i), F32)))
    for count in (0, 3, 8):
        check(kernel(body, n, y, last=Role.INOUT), machine, np.array([count]), floats(8))


@pytest.mark.parametrize("threads", [1, 2])
def test_parallel_loop_captures_variables_and_buffers(check, machine: Machine, threads: int) -> None:
    x, y = Buffer("x", F32, (3, 7, 8)), Buffer("y", F32, (3, 7, 8))
    scratch = Buffer("s", F32, (8,), "local")
    row = seq(
        vector(8, Store(scratch, (v,), mul(read(x, (i, j, v)), const(3.0, F32)))),
        vector(8, Store(y, (i, j, v), add(read(scratch, (v,)), cast(add(i, j), F32)))),
    )
    body = For(i, const(3), For(j, const(6), Allocate(scratch, row), LoopKind.PARALLEL, start=const(1)))
    check(
        kernel(body, x, y, last=Role.INOUT),
        machine,
        floats(3, 7, 8),
        floats(3, 7, 8),
        threads=threads,
        rtol=1e-6,
    )


def test_nested_parallel_loop_and_shared_local_buffer(check, machine: Machine) -> None:
    x, y = Buffer("x", F32, (4, 6)), Buffer("y", F32, (4, 6))
    shared = Buffer("t", F32, (4,), "register")
    fill = For(i, const(4), Store(shared, (i,), read(x, (i, i))))
    inner = For(j, const(6), Store(y, (i, j), mul(read(x, (i, j)), read(shared, (i,)))), LoopKind.PARALLEL)
    body = Allocate(shared, seq(fill, For(i, const(4), inner, LoopKind.PARALLEL)))
    check(kernel(body, x, y), machine, floats(4, 6), floats(4, 6), threads=2)


@pytest.mark.parametrize(("rows", "columns", "lanes"), [(4, 2, 8), (3, 1, 5), (6, 2, 16)])
def test_register_tiled_product(check, machine: Machine, rows: int, columns: int, lanes: int) -> None:
    width = columns * lanes
    a, b, c = Buffer("a", F32, (rows, 9)), Buffer("b", F32, (9, width)), Buffer("c", F32, (rows, width))
    tile = Buffer("acc", F32, (rows, columns, lanes), "register")
    cells = [(const(r), const(q)) for r in range(rows) for q in range(columns)]

    def column(q: Expr) -> Expr:
        return add(v, mul(q, const(lanes)))

    start = [vector(lanes, Store(tile, (r, q, v), const(0.0, F32))) for r, q in cells]
    turn = [
        vector(
            lanes,
            Store(tile, (r, q, v), add(read(tile, (r, q, v)), mul(read(a, (r, k)), read(b, (k, column(q)))))),
        )
        for r, q in cells
    ]
    finish = [
        vector(lanes, Store(c, (r, column(q)), maximum(read(tile, (r, q, v)), const(0.0, F32))))
        for r, q in cells
    ]
    body = Allocate(tile, seq(*start, For(k, const(9), seq(*turn)), *finish))
    check(kernel(body, a, b, c), machine, floats(rows, 9), floats(9, width), floats(rows, width), rtol=1e-5)


def test_register_buffer_read_by_lane_and_by_run_time_index(check, machine: Machine) -> None:
    x, y = Buffer("x", F32, (8,)), Buffer("y", F32, (8,))
    tile = Buffer("r", F32, (8,), "register")
    fill = vector(8, Store(tile, (v,), read(x, (v,))))
    by_lane = seq(*(Store(y, (const(n),), read(tile, (const(7 - n),))) for n in range(8)))
    set_lane = Store(tile, (const(2),), const(5.0, F32))
    check(kernel(Allocate(tile, seq(fill, set_lane, by_lane)), x, y), machine, floats(8), floats(8))
    by_index = For(i, const(8), Store(y, (i,), read(tile, (add(const(7), mul(i, const(-1))),))))
    check(kernel(Allocate(tile, seq(fill, by_index)), x, y), machine, floats(8), floats(8))


def test_register_buffer_of_two_vectors_in_one_axis(check, machine: Machine) -> None:
    x, y = Buffer("x", F32, (16,)), Buffer("y", F32, (16,))
    tile = Buffer("r", F32, (16,), "register")
    parts = [add(v, const(0)), add(v, const(8))]
    fill = [vector(8, Store(tile, (p,), read(x, (p,)))) for p in parts]
    use = [vector(8, Store(y, (p,), mul(read(tile, (p,)), read(tile, (const(9),))))) for p in parts]
    check(kernel(Allocate(tile, seq(*fill, *use)), x, y), machine, floats(16), floats(16))


def test_lanes_that_write_one_element_run_in_order(check, machine: Machine) -> None:
    x, y = Buffer("x", F32, (8,)), Buffer("y", F32, (1,))
    total = vector(8, Store(y, (const(0),), add(read(y, (const(0),)), read(x, (v,)))))
    check(kernel(total, x, y, last=Role.INOUT), machine, floats(8), floats(1), rtol=1e-6)


def test_if_and_while(check, machine: Machine) -> None:
    x, y = Buffer("x", I32, (10,)), Buffer("y", I32, (10,))
    halve = seq(
        Store(y, (i,), read(x, (i,))),
        While(
            binary("gt", read(y, (i,)), const(10, I32)),
            Store(y, (i,), floordiv(read(y, (i,)), const(2, I32))),
        ),
        If(
            binary("eq", mod(i, const(3)), const(0)),
            Store(y, (i,), const(-1, I32)),
            If(binary("lt", i, const(4)), Store(y, (i,), add(read(y, (i,)), const(100, I32)))),
        ),
    )
    check(
        kernel(For(i, const(10), halve), x, y),
        machine,
        RNG.integers(0, 1000, 10).astype(np.int32),
        np.zeros(10, np.int32),
    )


def test_store_under_a_condition_that_differs_by_lane(check, machine: Machine) -> None:
    x, y, z = Buffer("x", F32, (2, 8)), Buffer("y", F32, (2, 8)), Buffer("z", F32, (16,))
    at = (i, v)
    body = vector(
        8,
        If(
            binary("gt", read(x, at), const(0.0, F32)),
            Store(y, at, mul(read(x, at), const(2.0, F32))),
            Store(z, (add(mul(v, const(2)), i),), read(x, at)),
        ),
    )
    tested = Kernel("tested", (x, y, z), (Role.IN, Role.INOUT, Role.INOUT), For(i, const(2), body))
    check(tested, machine, floats(2, 8), floats(2, 8), floats(16))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_half_precision_buffers_in_vector_code(check, machine: Machine, dtype) -> None:
    x, y = Buffer("x", dtype, (24,)), Buffer("y", dtype, (24,))
    at = add(mul(i, const(8)), v)
    body = For(i, const(3), vector(8, Store(y, (at,), mul(read(x, (at,)), read(x, (i,))))))
    check(kernel(body, x, y), machine, floats(24).astype(dtype.numpy), floats(24).astype(dtype.numpy))


def test_local_buffer_beyond_the_stack_is_refused(run, machine: Machine) -> None:
    x, big = Buffer("x", F32, (4,)), Buffer("big", F32, (1 << 20,), "local")
    body = Allocate(big, Store(x, (const(0),), const(1.0, F32)))
    with pytest.raises(CodegenError, match=r"kernel 'tested'.*'big' a scratch parameter"):
        run(kernel(body, x), machine, floats(4))


def test_unknown_scope_and_loop_kind_are_refused(run, machine: Machine) -> None:
    x = Buffer("x", F32, (4,))
    store = Store(x, (const(0),), const(1.0, F32))
    with pytest.raises(CodegenError, match="scope 'shared'"):
        run(kernel(Allocate(Buffer("s", F32, (4,), "shared"), store), x), machine, floats(4))
    with pytest.raises(CodegenError, match="loop 'i': kind bound"):
        run(kernel(For(i, const(4), store, LoopKind.BOUND), x), machine, floats(4))


def test_select_guards_reads_that_leave_the_buffer(check, machine: Machine) -> None:
    """Padding: by a branch where all lanes agree, by masks where they do not, by both when nested."""
    x, y = Buffer("x", F32, (3, 8)), Buffer("y", F32, (5, 12))
    row, column = add(i, const(-1)), add(v, const(-2))
    inside_row = binary("and", binary("ge", row, const(0)), binary("lt", row, const(3)))
    inside_column = binary("and", binary("ge", column, const(0)), binary("lt", column, const(8)))
    value = select(
        inside_row, select(inside_column, read(x, (row, column)), const(0.5, F32)), const(0.0, F32)
    )
    body = For(i, const(5), vector(12, Store(y, (i, v), value)))
    check(kernel(body, x, y), machine, floats(3, 8), floats(5, 12))
    both = select(binary("and", inside_row, inside_column), read(x, (row, column)), const(-1.0, F32))
    check(
        kernel(For(i, const(5), vector(12, Store(y, (i, v), both))), x, y),
        machine,
        floats(3, 8),
        floats(5, 12),
    )
    scalar = For(i, const(5), For(v, const(12), Store(y, (i, v), both)))
    check(kernel(scalar, x, y), machine, floats(3, 8), floats(5, 12))


def test_masked_uniform_and_strided_reads(check, machine: Machine) -> None:
    x, y = Buffer("x", F32, (16,)), Buffer("y", F32, (2, 8))
    far = add(mul(i, const(1000)), const(3))  # outside for i = 1, where no lane asks
    use = binary("lt", add(v, mul(i, const(8))), const(5))
    value = select(use, add(read(x, (far,)), read(x, (mul(v, const(3)),))), const(0.0, F32))
    body = For(i, const(2), vector(8, Store(y, (i, v), value)))
    check(kernel(body, x, y), machine, floats(16), floats(2, 8))


@pytest.mark.parametrize("stride", [2, 3, -1, -2, 0])
@pytest.mark.parametrize("lanes", [5, 8])
def test_strided_reads_stay_inside_the_buffer(check, machine: Machine, stride: int, lanes: int) -> None:
    size = abs(stride) * (lanes - 1) + 1
    x, y = Buffer("x", F32, (size,)), Buffer("y", F32, (lanes,))
    at = add(mul(v, const(stride)), const(0 if stride >= 0 else size - 1))
    check(kernel(vector(lanes, Store(y, (v,), read(x, (at,)))), x, y), machine, floats(size), floats(lanes))


def test_gather_and_scatter_by_indices_from_memory(check, machine: Machine) -> None:
    t, x, y = Buffer("t", I64, (8,)), Buffer("x", F32, (20, 3)), Buffer("y", F32, (8, 8))
    at = minimum(maximum(read(t, (v,)), const(0)), const(19))
    body = For(i, const(3), vector(8, Store(y, (v, i), read(x, (at, i)))))
    indices = RNG.integers(-5, 25, 8)
    check(kernel(body, t, x, y, last=Role.INOUT), machine, indices, floats(20, 3), floats(8, 8))
    scalar = For(i, const(3), For(v, const(8), Store(y, (v, i), read(x, (at, i)))))
    check(kernel(scalar, t, x, y, last=Role.INOUT), machine, indices, floats(20, 3), floats(8, 8))


def test_indices_with_division_inside(check, machine: Machine) -> None:
    x, y = Buffer("x", U8, (4, 6)), Buffer("y", U8, (24,))
    flat = add(mul(i, const(8)), v)
    value = read(x, (mod(flat, const(4)), floordiv(flat, const(4))))
    body = For(i, const(3), vector(8, Store(y, (flat,), value)))
    check(kernel(body, x, y), machine, RNG.integers(0, 255, (4, 6)).astype(np.uint8), np.zeros(24, np.uint8))


def test_register_buffers_of_one_name_in_two_parallel_loops(check, machine: Machine) -> None:
    x, y = Buffer("x", F32, (4, 8)), Buffer("y", F32, (4, 8))
    tile = Buffer("r", F32, (2,), "register")

    def half(first: int) -> Stmt:
        row = seq(
            Store(tile, (const(0),), read(x, (i, const(first)))),
            Store(tile, (const(1),), mul(read(tile, (const(0),)), const(2.0, F32))),
            For(j, const(4), Store(y, (i, add(j, const(first))), read(tile, (mod(j, const(2)),)))),
        )
        return For(i, const(4), Allocate(tile, row), LoopKind.PARALLEL)

    check(kernel(seq(half(0), half(4)), x, y), machine, floats(4, 8), floats(4, 8), threads=2)


def test_scalar_registers_in_a_parallel_loop_leave_no_stack_traffic(machine: Machine) -> None:
    from tilewright.targets.cpu.codegen import kernel_text
    from tilewright.targets.cpu.objects import assembly

    x, y = Buffer("x", F32, (4, 8)), Buffer("y", F32, (4,))
    total = Buffer("r", F32, (1,), "register")
    zero = (const(0),)
    row = seq(
        Store(total, zero, const(0.0, F32)),
        For(j, const(8), Store(total, zero, add(read(total, zero), read(x, (i, j))))),
        Store(y, (i,), read(total, zero)),
    )
    body = For(i, const(4), Allocate(total, row), LoopKind.PARALLEL)
    task = assembly(kernel_text(kernel(body, x, y), machine), machine).partition("kernel.task0:")[2]
    assert "ret" in task
    assert "(%rsp" not in task.partition("ret")[0]


def test_spilled_vectors_lie_aligned(machine: Machine) -> None:
    from tilewright.targets.cpu.codegen import kernel_text
    from tilewright.targets.cpu.objects import assembly

    lanes = machine.lanes(32)
    count = 2 * machine.registers
    x, y = Buffer("x", F32, (4, 8, count, lanes)), Buffer("y", F32, (4, count, lanes))
    sums = Buffer("r", F32, (count, lanes), "register")

    def tile(value: Stmt) -> Stmt:
        return For(k, const(count), vector(lanes, value), LoopKind.UNROLLED)

    row = seq(
        tile(Store(sums, (k, v), const(0.0, F32))),
        For(j, const(8), tile(Store(sums, (k, v), add(read(sums, (k, v)), read(x, (i, j, k, v)))))),
        tile(Store(y, (i, k, v), read(sums, (k, v)))),
    )
    body = For(i, const(4), Allocate(sums, row), LoopKind.PARALLEL)
    task = assembly(kernel_text(kernel(body, x, y), machine), machine).partition("kernel.task0:")[2]
    spills = [line for line in task.partition("ret")[0].splitlines() if "(%rsp)" in line and "mov" in line]
    assert spills
    assert not [line for line in spills if "movups" in line]
