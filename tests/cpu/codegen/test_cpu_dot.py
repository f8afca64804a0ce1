"""Dot products of pairs of bf16 and quads of bytes: by an instruction where there is one, or lane by lane."""

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from kernel_runs import AVX2, AVX512

from tilewright.loops.parse import parse_kernel
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.codegen_dot import DOTS, match
from tilewright.targets.cpu.detect import from_features, host
from tilewright.targets.cpu.objects import compile_text

MACHINES = {
    "bf16": AVX512 | {"avx512bf16"},
    "vnni": AVX512 | {"avx512vnni"},
    "avx-vnni": AVX2 | {"avxvnni"},
    "neither": AVX512,
}


@dataclass(frozen=True)
class Form:
    """How a kernel differs from one that the rule knows. apart: elements from term to term of x."""

    lanes: int = 16
    dot: str = "dot_pairs"
    terms: int = 0
    apart: int = 1
    x: str = ""
    w: str = ""


@pytest.fixture(params=list(MACHINES))
def machine(request):
    missing = sorted(MACHINES[request.param] - set(host().features))
    if missing:
        pytest.skip(f"this processor has no {', '.join(missing)}")
    return from_features(request.param, frozenset(MACHINES[request.param]))


def text(form: Form) -> str:
    """y[r, a] = sum of x[r, k] w[k / terms, a, k % terms] for three rows."""
    dot, lanes, apart = DOTS[form.dot], form.lanes, form.apart
    sums, zero = dot.sums, "0.0" if dot.sums.is_float else "0"
    x_read = f"x[r, (((k * {dot.terms}) + j) * {apart})]"
    x, w, steps = form.x or dot.x, form.w or dot.w, dot.terms
    return f"""
kernel dots(@in x: {x}[3,{4 * steps * apart}], @in w: {w}[4,{lanes},{steps}], @out y: {sums}[3,{lanes}]) {{
  serial for r in 0 .. +3 {{
    alloc sums: {sums}[{lanes}] in register {{
      vectorized for a in 0 .. +{lanes} {{
        sums[a] = {zero}:{sums}
      }}
      serial for k in 0 .. +4 {{
        vectorized tensorized({form.dot}) for a in 0 .. +{lanes} {{
          serial for j in 0 .. +{form.terms or steps} {{
            sums[a] = (sums[a] + (cast:{sums}({x_read}) * cast:{sums}(w[k, a, j])))
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
    """Random operands; bytes over their whole range."""
    rng = np.random.default_rng(seed)

    def values(buffer):
        if buffer.dtype.is_float:
            return rng.standard_normal(buffer.shape).astype(buffer.dtype.numpy)
        return rng.integers(0, 256, buffer.shape).astype(np.uint8).astype(buffer.dtype.numpy)

    return [values(b) for b in kernel.params]


def nest(kernel):
    """The loop that is marked, three levels down."""
    return kernel.body.body.body.body[1].body


@pytest.mark.parametrize("dot", list(DOTS))
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 7, 8, 16, 24])
def test_dot_products(check, machine, lanes, dot):
    kernel = parse_kernel(text(Form(lanes, dot)))
    written = DOTS[dot].callee in kernel_text(kernel, machine)
    assert written == (DOTS[dot].on(machine) and lanes in (4, 8, 16) and lanes <= machine.lanes(32))
    check(kernel, machine, *arrays(kernel), rtol=1e-6)


@pytest.mark.parametrize("name", list(MACHINES))
def test_machine_code_is_made_for_machines_that_this_one_is_not(name):
    machine = from_features(name, frozenset(MACHINES[name]))
    for dot in DOTS:
        form = Form(machine.lanes(32), dot)
        made = kernel_text(parse_kernel(text(form)), machine)
        assert (DOTS[dot].callee in made) == DOTS[dot].on(machine)
        assert compile_text(made, machine).startswith(b"\x7fELF")


def test_a_profile_may_count_on_wider_vectors_than_the_instruction_has():
    """LLVM cannot split the instruction, and would end the process."""
    machine = replace(from_features("wide", frozenset(MACHINES["avx-vnni"])), vector_bits=512)
    for lanes, written in ((8, True), (16, False)):
        made = kernel_text(parse_kernel(text(Form(lanes, "dot_quads"))), machine)
        assert (DOTS["dot_quads"].callee in made) == written
        assert compile_text(made, machine).startswith(b"\x7fELF")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 0.0])
def test_special_values(check, machine, value):
    kernel = parse_kernel(text(Form()))
    x, w, y = arrays(kernel)
    x[1, 3] = ml_dtypes.bfloat16(value)
    check(kernel, machine, x, w, y, rtol=1e-6)


@pytest.mark.parametrize("weight", [-128, 127])
def test_sums_of_bytes_do_not_saturate(check, machine, weight):
    kernel = parse_kernel(text(Form(dot="dot_quads")))
    x, w, y = arrays(kernel)
    x[:], w[:] = 255, weight
    found = check(kernel, machine, x, w, y)
    assert (found[2] == 16 * 255 * weight).all()


@pytest.mark.parametrize(
    "other",
    [
        text(Form(apart=3)),  # terms of x are not contiguous
        text(Form(terms=1)),
        text(Form(dot="dot_quads", terms=2)),
        text(Form()).replace("w[k, a, j]", "w[k, 0, j]"),  # the same for all lanes
        text(Form(x="f16", w="f16")),
        text(Form(dot="dot_quads", x="i8", w="u8")),
        text(Form(dot="dot_quads", x="u8", w="u8")),
        text(Form()).replace("cast:f32(w[k, a, j])", "(cast:f32(w[k, a, j]) + 1.0:f32)"),
        text(Form()).replace("(sums[a] + ", "(2.0:f32 + "),
    ],
)
def test_other_loops_are_left_alone(check, machine, other):
    kernel = parse_kernel(other)
    dot = nest(kernel).intrinsic
    assert match(nest(kernel), DOTS[dot]) is None
    assert match(nest(parse_kernel(text(Form(dot=dot)))), DOTS[dot]) is not None
    check(kernel, machine, *arrays(kernel), rtol=1e-5)
