"""The text of the graph IR: round trips, sidecars, and what the parser refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.dtypes import DTYPES, F32, F64, I64, DType
from tilewright.errors import ParseError, VerifyError
from tilewright.graph.ir import Function, Module
from tilewright.graph.parse import parse_function, parse_module, read_text
from tilewright.graph.text import print_function, print_module, same, sidecar, write_text
from tilewright.ops.operator import Builder
from tilewright.passes.verify import verify_function
from tilewright.storage import Storage
from tilewright.types import TensorType

HAND_WRITTEN = """
// A convolution of a 4-pixel image, written by hand.
func @main(%x: f32[1,1,2,2]) -> (%r as "prob") {
  const %w: f32[2,1,1,1] = [1.0, -2.5]  // two filters
  %c: f32[1,2,2,2] = Conv(%x, %w, _) {
    strides=[1, 1], dilations=[1, 1], pads=[0, 0, 0, 0], group=1
  } @conv1 from ["conv/1", "bn:1"]
  %r: f32[1,2,2,2] = Relu(%c) @relu
}
"""


def network() -> Function:
    """A function with every kind of operand, attribute and body."""
    function = Function("main")
    x = function.add_input("gpu_0/data:0", TensorType(F32, (1, 3, 4, 4)))
    build = Builder(function, origin=("layer/1",))
    w = build.constant(np.linspace(-1, 1, 4 * 3 * 9, dtype=np.float32).reshape(4, 3, 3, 3), "w")
    c = build.op("Conv", x, w, None, pads=(1, 1, 1, 1), strides=(1, 1), dilations=(1, 1), group=1)
    packed = build.op("Pack", c, storage=Storage("acdb", ((0, 0), (0, 0), (1, 1), (1, 1)), 7))
    y = build.op("Cast", build.op("Unpack", packed), to=F64)
    body = Function("body")
    p = body.add_input("p", y.type)
    scale = body.constant(np.array([0.1, -0.0, np.inf, np.nan]).reshape(1, 4, 1, 1))
    body.outputs.append(Builder(body).op("Mul", p, scale))
    node = function.make_node("Fused", [y], [y.type], bodies=(body,))
    function.nodes.append(node)
    function.outputs += [node.output, c]
    function.output_names += ["out/y", "conv"]
    return function


def test_hand_written_text() -> None:
    function = parse_function(HAND_WRITTEN)
    verify_function(function)
    conv, relu = function.nodes
    assert conv.inputs[2] is None
    assert conv.attrs["pads"] == (0, 0, 0, 0)
    assert conv.origin == ("conv/1", "bn:1")
    assert conv.operand(1) is function.constants()[0]
    assert relu.output is function.outputs[0]
    assert function.output_names == ["prob"]
    assert same(parse_function(print_function(function)), function)


def test_text_round_trips_through_a_file(tmp_path: Path) -> None:
    module = Module({"main": network()})
    verify_function(module.entry)
    path = tmp_path / "net.tw.txt"
    write_text(module, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.tw.npz", "net.tw.txt"]
    again = read_text(path)
    verify_function(again.entry)
    assert print_module(again) == print_module(module)
    assert again.entry.nodes[1].attrs["storage"] == module.entry.nodes[1].attrs["storage"]
    np.testing.assert_array_equal(again.entry.constants()[0].data, module.entry.constants()[0].data)


def test_small_constants_need_no_sidecar(tmp_path: Path) -> None:
    write_text(parse_module(HAND_WRITTEN), tmp_path / "small.tw.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["small.tw.txt"]


def test_new_names_after_parsing_do_not_collide() -> None:
    function = parse_function(HAND_WRITTEN)
    taken = {"x", "w", "c", "r", "conv1", "relu"}
    assert {function.fresh(name) for name in taken} & taken == set()


def test_functions_share_constants_of_equal_content() -> None:
    one = "func @{}() -> (%y) {{ const %w: i64[1] = [{}] %y: i64[1] = Identity(%w) @n }}\n"
    module = parse_module(one.format("a", 1) + one.format("b", 1) + one.format("c", 2))
    a, b, c = (f.constants()[0] for f in module.functions.values())
    assert a is b
    assert a is not c
    assert module.main == "a"
    assert parse_module(print_module(module).replace("entry @a", "entry @b")).main == "b"


def test_missing_and_damaged_sidecars(tmp_path: Path) -> None:
    path = tmp_path / "net.tw.txt"
    write_text(Module({"main": network()}), path)
    with np.load(sidecar(path)) as file:
        arrays = dict(file)
    arrays = {key: value ^ 1 for key, value in arrays.items()}
    np.savez(sidecar(path), **arrays)
    with pytest.raises(ParseError, match="constant %w: its data in the sidecar file is damaged"):
        read_text(path)
    sidecar(path).write_bytes(b"PK nothing")
    with pytest.raises(ParseError, match="not a readable sidecar"):
        read_text(path)
    sidecar(path).unlink()
    with pytest.raises(ParseError, match="constant %w: the sidecar file holds no sha256"):
        read_text(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a function"),
        ("func @main() -> (%y) {}", "line 1: %y is used before it is defined"),
        ("func @m(%x: f32[2]) -> (%y) {\n%y: f32[2] = Relu(%z) @n }", "line 2: %z is used before"),
        ("func @m(%x: f33[2]) -> () {}", "'f33' is no element type"),
        ("func @m(%x: f32[-2]) -> () {}", "extent -2 is negative"),
        ("func @m(%x: f32[2]@Ab4) -> () {}", "storage"),
        ("func @m(%x: f32[2]@ab) -> () {}", "does not fit a tensor of rank 1"),
        ("func @m(%x: f32[2], %x: f32[2]) -> () {}", "%x is defined twice"),
        ("func @m() -> () {} func @m() -> () {}", "function 'm' is defined twice"),
        ("entry @n func @m() -> () {}", "entry 'n' is not defined"),
        ('func @m(%x: f32[1], %y: f32[1]) -> (%x as "x", %y) {}', "either all results have a name"),
        ("func @m() -> () { const %c: f32[2] = [1.0] }", "needs 2 values, found 1"),
        ("func @m() -> () { const %c: i64[1] = [1.5] }", "'1.5' is no value of type i64"),
        ("func @m() -> () { const %c: i8[1] = [300] }", "line 1"),
        ("func @m() -> () { const %c: bool[1] = [1] }", "no value of type bool"),
        ("func @m(%x: f32[1]) -> () { %y: f32[1] = Relu(%x) {k=what} @n }", "'what' is no attribute value"),
        ("func @m(%x: f32[1]) -> () { %y: f32[1] = Relu(%x) }", "expected '@'"),
        ('func @m(%x: f32[1]) -> () { %"\\q": f32[1] = Relu(%x) @n }', "line 1"),
        ("func @m(%x: f32[1]) -> () $", "unexpected character '\\$'"),
        ("func @m(%x: f32[1", "expected ','"),
    ],
)
def test_errors_have_a_line(text: Any, message: Any) -> None:
    with pytest.raises(ParseError, match=message):
        parse_module(text)


def test_attributes_without_a_text_form_are_refused() -> None:
    function = parse_function(HAND_WRITTEN)
    function.nodes[0].attrs["callback"] = print
    with pytest.raises(VerifyError, match=r"attribute 'callback'.*no text form"):
        print_function(function)


names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
attributes = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        names,
        st.sampled_from(list(DTYPES.values())),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(names, min_size=4, max_size=4, unique=True),
    st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), attributes, max_size=3),
    st.sampled_from(list(DTYPES.values())),
    st.randoms(use_true_random=False),
)
def test_any_names_attributes_and_constants_round_trip(
    chosen: Any, attrs: Any, dtype: DType, rng: Any
) -> None:
    x, c, y, n = chosen
    function = Function(n)
    raw = bytes(rng.randrange(2 if dtype.kind == "bool" else 256) for _ in range(3 * dtype.bytes))
    operands = [
        function.add_input(x, TensorType(I64, (2, 0))),
        function.constant(np.frombuffer(raw, dtype.numpy), c),
        None,
    ]
    node = function.make_node(
        "Anything", operands, [TensorType(dtype, ())], attrs, output_names=[y], origin=(n,)
    )
    function.nodes.append(node)
    function.outputs.append(node.output)
    constant = function.constants()[0]
    data = {}
    if "sha256:" in print_function(function).split("Anything")[0]:  # a NaN with a payload
        digest = print_function(function).split("sha256:")[1][:64]
        data[digest] = np.frombuffer(raw, np.uint8)
    again = parse_function(print_function(function), data)
    assert same(again, function)
    assert again.nodes[0].attrs == attrs
    assert again.constants()[0].data.tobytes() == constant.data.tobytes()
