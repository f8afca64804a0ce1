"""How much code a loop program becomes, and which cuts are made when not all fit."""

from tilewright.dtypes import F32
from tilewright.expr import Var, add, const, floordiv, mul, read
from tilewright.loops.ir import Buffer, For, LoopKind, Store, walk
from tilewright.loops.parse import parse_kernel
from tilewright.loops.partition import Partition
from tilewright.loops.size import gathers, written_out

LANE = Var("v")
X, Y = Buffer("x", F32, (64, 64)), Buffer("y", F32, (8,))

PADDED = """
kernel k(@in x: f32[8,64], @out y: f32[8,64]) {
  serial for r in 0 .. +8 {
    serial for c in 0 .. +8 {
      unrolled for k in 0 .. +3 {
        vectorized for v in 0 .. +8 {
          y[r, ((c * 8) + v)] = select((((r + -1) >= 0) & ((((c * 8) + v) + k) >= 1)),
            x[(r + -1), ((((c * 8) + v) + k) + -1)], 0.0:f32)
        }
      }
    }
  }
}
"""


def test_unrolled_turns_count_each() -> None:
    row = For(LANE, const(8), Store(Y, (LANE,), const(0.0, F32)), LoopKind.VECTORIZED)
    assert written_out(row) == 1
    assert written_out(For(Var("k"), const(5), row, LoopKind.UNROLLED)) == 5
    assert written_out(For(Var("k"), const(5), row)) == 2


def test_a_gathered_vector_counts_half_its_lanes() -> None:
    row = Store(Y, (LANE,), read(X, (const(0), mul(LANE, const(3)))))
    assert written_out(For(LANE, const(8), row, LoopKind.VECTORIZED)) == 1 + 4


def test_which_reads_gather() -> None:
    def read_at(row, column):
        return gathers(read(X, (row, column)), "v")

    zero = const(0)
    assert read_at(zero, zero) == 0
    assert read_at(zero, add(LANE, const(3))) == 0
    assert read_at(zero, mul(LANE, const(2))) == 0
    assert read_at(zero, mul(LANE, const(3))) == 1
    assert read_at(zero, floordiv(LANE, const(2))) == 1
    assert read_at(LANE, LANE) == 1


def extents(max_size: int) -> dict[str, list[int]]:
    """Of the loops over rows and over columns; loops of one turn vanish."""
    cut = Partition(max_size=max_size).run(parse_kernel(PADDED))
    loops = [s for s in walk(cut.body) if isinstance(s, For)]
    return {name: [s.extent.value for s in loops if s.var.name == name] for name in ("r", "c")}


def test_inner_loops_are_cut_first() -> None:
    assert extents(100) == {"r": [7], "c": [8, 7]}
    assert extents(10) == {"r": [8], "c": [7]}
    assert extents(1) == {"r": [8], "c": [8]}
