"""Programs print to a text that parses back to an equal program."""

import numpy as np
import pytest
from hypothesis import given, settings
from program_machine import KERNELS, call, program, programs, row, rows, source, target

from tilewright.dtypes import BOOL, I64
from tilewright.errors import ParseError, VerifyError
from tilewright.program.ir import CallKernel, Copy, Loop, Memory, Space
from tilewright.program.parse import parse_program
from tilewright.program.passes.lifetimes import Lifetimes
from tilewright.program.text import digest, print_program
from tilewright.program.verify import verify_program
from tilewright.storage import Storage


def _again(made):
    constants = {digest(data): data for _, data in made.constants.values()}
    return parse_program(print_program(made), constants, made.kernels)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_texts_round_trip(made):
    made = Lifetimes()(made)
    again = _again(made)
    assert (again.name, again.inputs, again.outputs, again.body) == (
        made.name,
        made.inputs,
        made.outputs,
        made.body,
    )
    assert again.kernels == made.kernels
    assert again.notes == made.notes
    assert print_program(again) == print_program(made)


@pytest.mark.parametrize("fill", [0, 128, -3])
def test_odd_names_and_storages_survive(fill):
    storage = Storage("", ((1, 2),), fill)
    odd = Memory('a "b" {c}, d', row("x").dtype, (1, 4), Space.ACTIVATION, (4,), storage)
    x = row("x", Space.MUTABLE)
    made = program(
        [Copy(target(odd), source(x)), CallKernel("bump", (source(x), target(odd)), ("n/1", 'q"'))], [x]
    )
    assert _again(made).body == made.body


def test_reasons_survive():
    made = program([call("bump", row("a"), row("b"))])
    storage = {"reads": ["acdb"], "granted": True, "gain": None}
    made.reasons = [{"nodes": ["n {1}", 'q"'], "op": "Conv", "kernel": "bump", "storage": storage}]
    assert _again(made).reasons == made.reasons


def test_the_text_shows_slices_and_constants():
    w = row("w", Space.CONSTANT)
    made = program([call("bump", (rows("b"), "t"), row("a"))], constants=[(w, np.zeros(4, np.float32))])
    text = print_program(made)
    assert "call %bump @in %b[%t], @out %a" in text
    assert f"constant %w f32[4] sha256 {digest(np.zeros(4, np.float32))}" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("programme", "'program'"),
        ('program "p" declare { } program { jump }', "unknown instruction"),
        ('program "p" declare { } program { alloc %a }', "not declared"),
        ('program "p" declare { activation %a q9[4] } program { }', "unknown element type"),
        ('program "p" declare { activation %a u8[4] storage plain+1 } program { }', "two numbers an axis"),
        ('program "p" declare { activation %a u8[4] storage plain+1.1:x } program { }', "then its fill"),
        ('program "p" declare { activation %a f32[4] } program { copy @out %a @in %a }', "expected ','"),
        ('program "p" declare { constant %a f32[4] sha256 00 } program { }', "was not given"),
        ('program "p" declare { kernel %k } program { }', "was not given"),
        ('program "p" declare { } program { } ?', "unexpected"),
        ('program "p" declare { } program { } alloc', "end of the text"),
        ('program "p" declare { thing %a } program { }', "starts with"),
        ('program "p" declare { reason {"nodes": } } program { }', "Expecting value"),
    ],
)
def test_bad_texts_are_refused(text, message):
    with pytest.raises(ParseError, match=message):
        parse_program(text, {}, {name: k for name, k in KERNELS.items() if name == "bump"})


def test_loops_that_memory_ends_and_counted_outputs_survive():
    x, y = row("x", Space.MUTABLE), row("y", Space.MUTABLE)
    limit, going = Memory("limit", I64, (), Space.MUTABLE), Memory("go", BOOL, (), Space.MUTABLE)
    turn = (call("bump", x, y),)
    made = program([Loop("i", 9, turn, False, source(limit), source(going))], [x, limit, going], [y])
    made.outputs.append(("y:count", Memory("n", I64, (), Space.MUTABLE)))
    made.counts["y"] = ((0, "y:count"),)
    assert _again(made).body == made.body
    assert _again(made).counts == made.counts
    assert "loop %i 9 limit @in %limit while @in %go {" in print_program(made)


def test_what_ends_a_loop_must_be_a_scalar_of_its_type():
    x, y = row("x", Space.MUTABLE), row("y", Space.MUTABLE)
    made = program([Loop("i", 9, (call("bump", x, y),), False, source(x))], [x], [y])
    with pytest.raises(VerifyError, match=r"'x' of type f32\[4\] as its limit, expected one @in i64"):
        verify_program(made)
