"""The loop passes: what they change, what they must leave, and that the kernel computes the same."""

import numpy as np
import pytest

from tilewright.dtypes import I64
from tilewright.errors import ParseError
from tilewright.expr import Var, binary, const, floordiv, minimum, mod
from tilewright.loops.affine import Bounds, linear, rejoined
from tilewright.loops.interpret import interpret
from tilewright.loops.ir import Allocate, For, If, LoopKind, Role, walk
from tilewright.loops.parse import parse_kernel
from tilewright.loops.partition import Partition
from tilewright.loops.scratch import HoistScratch
from tilewright.loops.simplify import simplify_kernel
from tilewright.loops.text import format_kernel
from tilewright.loops.unroll import Unroll
from tilewright.loops.vectorize import legalize_vectors

ROW, LANE = Var("i"), Var("j")
BOUNDS = Bounds({"i": (0, 3), "j": (0, 15)})

TAIL = """
kernel tail(@in x: f32[30], @out y: f32[30]) {
  serial for i in 0 .. +4 {
    vectorized for j in 0 .. +8 {
      if (((i * 8) + j) < 30) {
        y[((i * 8) + j)] = (x[((i * 8) + j)] + 1.0:f32)
      }
    }
  }
}
"""

CONCAT = """
kernel concat(@in a: f32[16], @in b: f32[8], @out y: f32[24]) {
  serial for i in 0 .. +3 {
    vectorized for j in 0 .. +8 {
      y[((i * 8) + j)] = select((((i * 8) + j) < 16), a[((i * 8) + j)], b[(((i * 8) + j) - 16)])
    }
  }
}
"""

SUM = """
kernel sum(@in x: f32[4,16], @out y: f32[4]) {
  serial for i in 0 .. +4 {
    alloc acc: f32[1] in register {
      acc[0] = 0.0:f32
      unrolled for j in 0 .. +16 {
        acc[0] = (acc[0] + x[i, j])
      }
      y[i] = acc[0]
    }
  }
}
"""


def run(kernel, *inputs):
    arrays = [np.asarray(x, np.float32) for x in inputs]
    result = np.full(kernel.params[-1].shape, np.nan, np.float32)
    interpret(kernel, [*arrays, result])
    return result


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (floordiv(ROW * 16 + LANE, const(16)), ROW),
        (mod(ROW * 16 + LANE, const(16)), LANE),
        (floordiv(ROW * 32 + LANE * 2 + 1, const(2)), ROW * 16 + LANE),
        (mod(LANE + 16, const(16)), LANE),
        (floordiv(floordiv(LANE, const(2)), const(2)), floordiv(LANE, const(4))),
        (floordiv(ROW * 48 + LANE, const(96)), floordiv(ROW, const(2))),
        (mod(ROW * 48 + LANE, const(96)), mod(ROW, const(2)) * 48 + LANE),
        (minimum(LANE, const(20)), LANE),
        (binary("lt", ROW * 16 + LANE, const(64)), const(1, I64) < const(2)),
        (ROW + 3 - ROW, const(3)),
    ],
)
def test_indices_simplify(expression, expected):
    assert BOUNDS.simplify(expression) == expected


def test_a_division_that_is_not_decided_stays():
    assert BOUNDS.simplify(floordiv(LANE + 1, const(16))) == floordiv(LANE + 1, const(16))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (floordiv(ROW + LANE, const(9)) * 9 + mod(ROW + LANE, const(9)), ROW + LANE),
        (floordiv(LANE, const(4)) * 24 + mod(LANE, const(4)) * 6 + 5, LANE * 6 + 5),
        (floordiv(LANE, const(4)) * 8 + mod(LANE, const(4)), None),  # rows of 8, of which 4 are taken
        (floordiv(LANE, const(4)) * 4 + mod(ROW, const(4)), None),
    ],
)
def test_quotient_and_remainder_of_an_index_are_the_index(parts, expected):
    form = linear(parts)
    assert rejoined(form) == (form if expected is None else linear(expected))


def test_partition_cuts_a_tail_off_and_narrows_its_vectors():
    kernel = parse_kernel(TAIL)
    cut = legalize_vectors(Partition().run(kernel))
    assert not any(isinstance(s, If) for s in walk(cut.body))
    lanes = [s.extent for s in walk(cut.body) if isinstance(s, For) and s.kind == LoopKind.VECTORIZED]
    assert lanes == [const(8), const(6)]
    x = np.arange(30)
    np.testing.assert_array_equal(run(cut, x), x + 1)


def test_partition_keeps_loops_that_are_instructions_whole():
    copy = """kernel turn(@in x: f32[3,56], @out y: f32[56,3]) {
      serial for i in 0 .. +4 {
        serial tensorized(transpose) for j in 0 .. +min(16, ((i * -16) + 56)) {
          vectorized for k in 0 .. +3 { y[((i * 16) + j), k] = x[k, ((i * 16) + j)] }
        }
      }
    }"""
    cut = Partition().run(parse_kernel(copy))
    assert [s.extent for s in walk(cut.body) if isinstance(s, For) and s.intrinsic] == [const(16), const(8)]
    x = np.arange(168).reshape(3, 56)
    np.testing.assert_array_equal(run(cut, x), x.T)
    ordinary = parse_kernel(copy.replace("tensorized(transpose) ", ""))
    assert Partition().run(ordinary) == ordinary


def test_partition_resolves_selects():
    cut = Partition().run(parse_kernel(CONCAT))
    assert "select" not in format_kernel(cut)
    np.testing.assert_array_equal(run(cut, np.arange(16), np.arange(16, 24)), np.arange(24))


def test_partition_cuts_six_parts():
    """As many planes as stand side by side for `fp32-fast` on AMX."""
    value = "x[(j + 40)]"
    for part in reversed(range(5)):
        value = f"select((((i * 8) + j) < {8 * part + 8}), x[(j + {8 * part})], {value})"
    text = f"""
kernel parts(@in x: f32[48], @out y: f32[48]) {{
  serial for i in 0 .. +6 {{
    vectorized for j in 0 .. +8 {{
      y[((i * 8) + j)] = {value}
    }}
  }}
}}
"""
    cut = Partition().run(parse_kernel(text))
    assert "select" not in format_kernel(cut)
    np.testing.assert_array_equal(run(cut, np.arange(48)), np.arange(48))


def test_partition_leaves_a_loop_alone_when_its_parts_would_be_too_many():
    kernel = parse_kernel(TAIL)
    assert Partition(max_size=0).run(kernel) == kernel


def test_unroll_writes_turns_out_within_its_limit():
    kernel = parse_kernel(SUM)
    straight = Unroll().run(kernel)
    assert not any(isinstance(s, For) and s.kind == LoopKind.UNROLLED for s in walk(straight.body))
    assert format_kernel(straight).count("acc[0] + x") == 16
    kept = Unroll(max_statements=8).run(kernel)
    loops = [s for s in walk(kept.body) if isinstance(s, For)]
    assert any(s.var.name == "j" and s.kind == LoopKind.SERIAL for s in loops)
    x = np.arange(64).reshape(4, 16)
    for k in (straight, kept):
        np.testing.assert_array_equal(run(k, x), x.sum(axis=1))


def test_guards_leave_loops_that_they_do_not_depend_on():
    text = """
kernel guard(@in x: f32[4,8], @out y: f32[4,8]) {
  serial for i in 0 .. +4 {
    serial for j in 0 .. +8 {
      if ((i * 2) < 5) {
        y[i, j] = x[i, j]
      }
    }
  }
}
"""
    simple = simplify_kernel(parse_kernel(text))
    outer = simple.body
    assert isinstance(outer, For)
    assert isinstance(outer.body, If)
    assert isinstance(outer.body.then, For)


def test_a_vector_loop_with_a_condition_of_its_lanes_becomes_serial():
    kernel = legalize_vectors(parse_kernel(TAIL))
    assert all(s.kind == LoopKind.SERIAL for s in walk(kernel.body) if isinstance(s, For))


@pytest.mark.parametrize("text", [TAIL, CONCAT, SUM])
def test_text_reads_back(text):
    kernel = parse_kernel(text)
    assert parse_kernel(format_kernel(kernel)) == kernel


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel k(@in x: f33[4]) {}", "'f33' is no element type"),
        ("kernel k() {\n y[0] = 1.0:f32 }", "line 2: buffer 'y' is not declared"),
        ("kernel k() {", "ends too early"),
        ("kernel k() { ? }", "cannot read"),
    ],
)
def test_bad_text_says_where(text, message):
    with pytest.raises(ParseError, match=message.replace("?", r"\?")):
        parse_kernel(text)


def test_the_interpreter_refuses_accesses_outside():
    kernel = parse_kernel("kernel k(@in x: f32[2], @out y: f32[2]) {\n y[0] = x[5] }")
    with pytest.raises(IndexError, match="accessed at"):
        run(kernel, np.zeros(2))


SCRATCH = """
kernel scratch(@in x: f32[4], @out y: f32[4]) {
  alloc t: f32[4] in local {
    serial for i in 0 .. +4 {
      t[i] = (x[i] * 2.0:f32)
    }
    parallel for i in 0 .. +4 {
      alloc u: f32[4] in local {
        u[0] = t[i]
        y[i] = u[0]
      }
    }
  }
}
"""


def test_large_buffers_outside_of_parallel_loops_become_parameters():
    kernel = HoistScratch(min_bytes=16).run(parse_kernel(SCRATCH))
    assert [(b.name, b.scope, role) for b, role in zip(kernel.params, kernel.roles, strict=True)][2:] == [
        ("t", "global", Role.SCRATCH)
    ]
    assert [s.buffer.name for s in walk(kernel.body) if isinstance(s, Allocate)] == ["u"]
    x, y, t = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    interpret(kernel, [x, y, t])
    np.testing.assert_array_equal(y, x * 2)
    assert HoistScratch(min_bytes=17).run(parse_kernel(SCRATCH)) == parse_kernel(SCRATCH)
