"""Products of bf16 pairs: by the instruction where the machine has it, lane by lane elsewhere."""

import ml_dtypes
import numpy as np
import pytest
from kernel_runs import AVX512

from tilewright.loops.parse import parse_kernel
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.codegen_dot import FEATURES, match
from tilewright.targets.cpu.detect import from_features, host

MACHINES = {"with": AVX512 | set(FEATURES), "without": AVX512}


@pytest.fixture(params=list(MACHINES))
def machine(request):
    missing = sorted(MACHINES[request.param] - set(host().features))
    if missing:
        pytest.skip(f"this processor has no {', '.join(missing)}")
    return from_features(request.param, frozenset(MACHINES[request.param]))


def text(lanes: int, terms: int = 2, apart: int = 1, dtype: str = "bf16") -> str:
    """y[r, a] = sum of x[r, k] w[k / 2, a, k % 2] for three rows."""
    return f"""
kernel dots(@in x: {dtype}[3,{8 * apart}], @in w: {dtype}[4,{lanes},2], @out y: f32[3,{lanes}]) {{
  serial for r in 0 .. +3 {{
    alloc sums: f32[{lanes}] in register {{
      vectorized for a in 0 .. +{lanes} {{
        sums[a] = 0.0:f32
      }}
      serial for k in 0 .. +4 {{
        vectorized tensorized(dot_pairs) for a in 0 .. +{lanes} {{
          serial for j in 0 .. +{terms} {{
            sums[a] = (sums[a] + (cast:f32(x[r, (((k * 2) + j) * {apart})]) * cast:f32(w[k, a, j])))
          }}
        }}
      }}
      vectorized for a in 0 .. +{lanes} {{
        y[r, a] = sums[a]
      }}
    }}
  }}
}}
"""


def arrays(kernel, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(b.shape).astype(b.dtype.numpy) for b in kernel.params]


def nest(kernel):
    """The loop that is marked, three levels down."""
    return kernel.body.body.body.body[1].body


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 7, 8, 16, 24])
def test_dot_products_of_pairs(check, machine, lanes):
    kernel = parse_kernel(text(lanes))
    written = "dpbf16ps" in kernel_text(kernel, machine)
    assert written == (machine.has("avx512bf16") and lanes in (4, 8, 16))
    check(kernel, machine, *arrays(kernel), rtol=1e-6)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 0.0])
def test_special_values(check, machine, value):
    kernel = parse_kernel(text(16))
    x, w, y = arrays(kernel)
    x[1, 3] = ml_dtypes.bfloat16(value)
    check(kernel, machine, x, w, y, rtol=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        text(16, apart=3),  # pairs of x are not contiguous
        text(16, terms=1),
        text(16).replace("w[k, a, j]", "w[k, 0, j]"),  # the same for all lanes
        text(16, dtype="f16"),
        text(16).replace("cast:f32(w[k, a, j])", "(cast:f32(w[k, a, j]) + 1.0:f32)"),
        text(16).replace("(sums[a] + ", "(2.0:f32 + "),
    ],
)
def test_other_loops_are_left_alone(check, machine, other):
    kernel = parse_kernel(other)
    assert match(nest(kernel)) is None
    assert match(nest(parse_kernel(text(16)))) is not None
    check(kernel, machine, *arrays(kernel), rtol=1e-5)
