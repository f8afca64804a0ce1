"""Flops are counted from loops, tails included."""

from program_machine import KERNELS

from tilewright.dtypes import F32
from tilewright.expr import Var, call, const, minimum, read, select
from tilewright.loops.ir import Buffer, For, If, Store
from tilewright.program.count import count_operations

A = Buffer("a", F32, (100,))
I, J = Var("i"), Var("j")
ADD = Store(A, (J,), read(A, [J]) + 1.0)


def test_kernels_of_one_loop():
    assert count_operations(KERNELS["bump"].body) == 4
    assert count_operations(KERNELS["mixed"].body) == 8


def test_a_tail_that_depends_on_the_outer_loop_is_exact():
    tail = For(J, minimum(const(4), const(10) - I * 4), ADD)
    assert count_operations(For(I, const(3), tail)) == 10


def test_fma_counts_twice_and_the_dearer_side_of_a_choice_counts():
    x = read(A, [const(0)])
    assert count_operations(Store(A, (const(0),), call("fma", x, x, x))) == 2
    assert count_operations(Store(A, (const(0),), select(x < 0.0, x, x * x + x))) == 2
    assert count_operations(If(x < 0.0, ADD, For(J, const(5), ADD))) == 5
