"""Copies that turn rows into columns, squares and rectangles, through the register transposition."""

import numpy as np
import pytest

from tilewright.loops.parse import parse_kernel
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.codegen_transpose import match


def text(columns: int, rows: int, dtype: str = "f32", step: int = 1) -> str:
    return f"""
kernel turn(@in x: {dtype}[3,{rows},{columns * step}], @out y: {dtype}[3,{columns},{rows}]) {{
  serial for k in 0 .. +3 {{
    serial tensorized(transpose) for a in 0 .. +{columns} {{
      vectorized for b in 0 .. +{rows} {{
        y[k, a, b] = x[k, b, (a * {step})]
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize("dtype", ["f32", "i8", "f64", "bool"])
@pytest.mark.parametrize(("columns", "rows"), [(16, 16), (8, 8), (6, 16), (16, 3), (2, 2), (5, 7)])
def test_rows_become_columns(check, machine, columns, rows, dtype):
    kernel = parse_kernel(text(columns, rows, dtype))
    assert match(kernel.body.body) is not None
    assert kernel_text(kernel, machine).count("shufflevector") > 0
    source, target = kernel.params
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, source.shape).astype(source.dtype.numpy)
    check(kernel, machine, x, np.zeros(target.shape, target.dtype.numpy))


@pytest.mark.parametrize(
    "kernel",
    [
        text(17, 4),  # too wide for one square
        text(4, 4, step=2),  # not contiguous
        text(4, 4).replace("x[k, b, (a * 1)]", "(x[k, b, (a * 1)] + 1.0:f32)"),  # more than a copy
        text(4, 4).replace("y[k, a, b]", "y[k, b, a]"),
    ],
)
def test_other_loops_are_left_alone(check, machine, kernel):
    parsed = parse_kernel(kernel)
    assert match(parsed.body.body) is None
    arrays = [np.arange(np.prod(b.shape), dtype=np.float32).reshape(b.shape) for b in parsed.params]
    check(parsed, machine, *arrays)
