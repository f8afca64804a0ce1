"""Flops are counted from loops, tails included."""

from program_machine import KERNELS

from tilewright.dtypes import F32, I8, I32, I64, U8
from tilewright.expr import Var, call, cast, const, minimum, read, select
from tilewright.loops.ir import Buffer, For, If, Store, seq
from tilewright.program.count import Work, count_work

A = Buffer("a", F32, (100,))
ROW, COL = Var("i"), Var("j")
WEIGHTS, CODES = Buffer("w", I8, (4, 16)), Buffer("x", U8, (4, 16))
ADD = Store(A, (COL,), read(A, [COL]) + 1.0)


def flops(stmt):
    return count_work(stmt).flops


def test_kernels_of_one_loop():
    assert flops(KERNELS["bump"].body) == 4
    assert flops(KERNELS["mixed"].body) == 8


def test_a_tail_that_depends_on_the_outer_loop_is_exact():
    tail = For(COL, minimum(const(4), const(10) - ROW * 4), ADD)
    assert flops(For(ROW, const(3), tail)) == 10


def test_fma_counts_twice_and_the_dearer_side_of_a_choice_counts():
    x = read(A, [const(0)])
    assert flops(Store(A, (const(0),), call("fma", x, x, x))) == 2
    assert flops(Store(A, (const(0),), select(x < 0.0, x, x * x + x))) == 2
    assert flops(If(x < 0.0, ADD, For(COL, const(5), ADD))) == 5


def test_products_of_bytes_are_integer_operations_of_their_intrinsic():
    sums = Buffer("s", I32, (4,))
    product = cast(read(CODES, [ROW, COL]), I32) * cast(read(WEIGHTS, [ROW, COL]), I32)
    step = Store(sums, (ROW,), read(sums, [ROW]) + product)
    plain = For(ROW, const(4), For(COL, const(16), step))
    assert count_work(plain) == Work(int_ops=128)
    dots = For(ROW, const(4), For(COL, const(16), step), intrinsic="dot_quads")
    assert count_work(For(Var("k"), const(3), dots)) == Work(int_ops=384, intrinsics={"dot_quads": 384})
    assert count_work(For(Var("k"), const(3), seq(dots, ADD))) == Work(3, 384, {"dot_quads": 384})


def test_indices_and_bounds_are_no_work():
    whole = Buffer("y", I64, (8,))
    inside = select(ROW * 2 - 1 < 5, read(whole, [ROW * 3 + 1]), ROW + 1)
    assert count_work(For(ROW, const(8), Store(whole, (ROW,), inside))) == Work()


def test_a_loop_that_moves_data_is_no_work_of_its_intrinsic():
    moved = For(ROW, const(4), Store(A, (ROW,), read(A, [ROW])), intrinsic="transpose")
    assert count_work(moved) == Work()
