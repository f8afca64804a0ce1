"""Flops are counted from loops, tails included."""

from program_machine import KERNELS

from tilewright.dtypes import F32
from tilewright.expr import Var, call, const, minimum, read, select
from tilewright.loops.ir import Buffer, For, If, Store
from tilewright.program.count import count_operations

A = Buffer("a", F32, (100,))
ROW, COL = Var("i"), Var("j")
ADD = Store(A, (COL,), read(A, [COL]) + 1.0)


def test_kernels_of_one_loop():
    assert count_operations(KERNELS["bump"].body) == 4
    assert count_operations(KERNELS["mixed"].body) == 8


def test_a_tail_that_depends_on_the_outer_loop_is_exact():
    tail = For(COL, minimum(const(4), const(10) - ROW * 4), ADD)
    assert count_operations(For(ROW, const(3), tail)) == 10


def test_fma_counts_twice_and_the_dearer_side_of_a_choice_counts():
    x = read(A, [const(0)])
    assert count_operations(Store(A, (const(0),), call("fma", x, x, x))) == 2
    assert count_operations(Store(A, (const(0),), select(x < 0.0, x, x * x + x))) == 2
    assert count_operations(If(x < 0.0, ADD, For(COL, const(5), ADD))) == 5
