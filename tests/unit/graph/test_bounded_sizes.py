"""Bounded extents: identity, text, type rules of the operators that accept them, and refusals."""

import copy
import pickle

import numpy as np
import pytest

from tilewright.dtypes import BOOL, F32, I64
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Module
from tilewright.graph.parse import parse_function
from tilewright.graph.text import print_function, same
from tilewright.ops.bounded import count_of
from tilewright.ops.evaluate import evaluate_function
from tilewright.ops.operator import Builder
from tilewright.passes.fold import Fold
from tilewright.passes.verify import verify_function
from tilewright.source import copy_module
from tilewright.types import Bounded, TensorType

N = Bounded(6, "n")


def cut(shape=(6, 3), axis=0):
    """A function of x and n, and x cut along an axis to n elements."""
    function = Function("main")
    x, n = function.add_input("x", TensorType(F32, shape)), function.add_input("n", TensorType(I64, ()))
    build = Builder(function)
    return build, build.op("Cut", x, n, axis=axis, count="n")


def test_an_extent_is_equal_to_itself_only():
    assert Bounded(6, "n") == N
    assert hash(Bounded(6, "n")) == hash(N)
    assert N not in (6, Bounded(6, "m"), Bounded(5, "n"))
    assert TensorType(F32, (N, 3)) != TensorType(F32, (6, 3))
    assert TensorType(F32, (N, 3)).at_bound() == TensorType(F32, (6, 3))
    assert (N * 2, N + 1, TensorType(F32, (N, 3)).bytes) == (12, 7, 72)
    assert str(TensorType(F32, (N, 3))) == f"f32[{N},3]" == "f32[?n<=6,3]"
    for again in (copy.deepcopy(N), pickle.loads(pickle.dumps(N))):
        assert again == N
        assert isinstance(again, Bounded)


def test_a_type_holds_arrays_up_to_its_bound():
    type = TensorType(F32, (N, 3))
    assert [type.holds(shape) for shape in ((0, 3), (6, 3), (7, 3), (6, 2), (6,))] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_text_round_trip_in_types_and_attributes():
    build, y = cut()
    function = build.function
    function.outputs = [build.op("Reshape", y, shape=(N, 1, 3))]
    verify_function(function)
    text = print_function(function)
    assert 'f32[?n<=6,3] = Cut(%x, %n) {axis=0, count="n"}' in text
    assert "shape=[?n<=6, 1, 3]" in text
    again = parse_function(text)
    verify_function(again)
    assert same(function, again)
    copied = copy_module(Module({"main": function})).entry
    assert same(function, copied)
    assert count_of(function, N) is function.inputs[1]
    assert count_of(function, Bounded(6, "m")) is None


@pytest.mark.parametrize(
    ("op", "attrs", "shape"),
    [
        ("Exp", {}, (N, 3)),
        ("Cast", {"to": BOOL}, (N, 3)),
        ("Transpose", {"perm": (1, 0)}, (3, N)),
        ("Reshape", {"shape": (N, 3, 1)}, (N, 3, 1)),
        ("Reshape", {"shape": (1, N, 1, 3)}, (1, N, 1, 3)),
        ("Slice", {"starts": (0, 1), "ends": (N, 2), "axes": (0, 1), "steps": (1, 1)}, (N, 1)),
        ("ReduceSum", {"axes": (1,), "keepdims": True}, (N, 1)),
        ("ReduceMax", {"axes": (1,), "keepdims": False}, (N,)),
        ("Softmax", {"axis": 1}, (N, 3)),
    ],
)
def test_what_keeps_the_size(op, attrs, shape):
    build, y = cut()
    function = build.function
    z = build.op(op, y, **attrs)
    assert z.shape == shape
    function.outputs, function.output_names = [z], ["z"]
    verify_function(function)
    x = np.random.default_rng(0).uniform(0.5, 1, (6, 3)).astype(np.float32)
    found = {n: evaluate_function(function, {"x": x, "n": np.array(n)})["z"] for n in (0, 2, 6)}
    axis = shape.index(N)
    for n, array in found.items():
        assert array.shape == tuple(n if isinstance(e, Bounded) else e for e in shape)
        np.testing.assert_array_equal(array, np.take(found[6], range(n), axis))


def test_operands_of_one_size_combine():
    build, y = cut()
    row = build.constant(np.ones((1, 3), np.float32))
    other = build.op("Neg", y)
    assert build.op("Add", y, other).shape == (N, 3)
    assert build.op("Add", row, y).shape == (N, 3)
    assert build.op("Concat", y, other, axis=1).shape == (N, 6)
    indices = build.op("Cast", build.op("ReduceSum", y, axes=(1,), keepdims=False), to=I64)
    table = build.constant(np.zeros((4, 2), np.float32))
    assert build.op("Gather", table, indices, axis=0).shape == (N, 2)


@pytest.mark.parametrize(
    ("op", "others", "attrs", "message"),
    [
        ("Add", [(6, 3)], {}, "depends on data"),
        ("MatMul", [(3, 2)], {}, "is not supported here"),
        ("Reshape", [], {"shape": (18,)}, "cannot take the shape"),
        ("Reshape", [], {"shape": (3, N)}, "cannot take the shape"),
        ("Slice", [], {"starts": (1, 0), "ends": (6, 3), "axes": (0, 1), "steps": (1, 1)}, "cut further"),
        ("Slice", [], {"starts": (0, 0), "ends": (6, 3), "axes": (0, 1), "steps": (1, 1)}, "cut further"),
        ("ReduceSum", [], {"axes": (0,), "keepdims": True}, "cannot be reduced"),
        ("Softmax", [], {"axis": 0}, "cannot be normalised"),
        ("Concat", [(6, 3)], {"axis": 0}, "cannot be concatenated along"),
        ("Tile", [], {"repeats": (2, 1)}, "is not supported here"),
        ("Pad", [], {"pads": (1, 0, 0, 0)}, "is not supported here"),
    ],
)
def test_what_would_read_beyond_the_count_is_refused(op, others, attrs, message):
    build, y = cut()
    operands = [build.function.add_input("other", TensorType(F32, shape)) for shape in others]
    with pytest.raises(VerifyError, match=message):
        build.op(op, y, *operands, **attrs)


def test_an_integer_divisor_is_refused():
    build, y = cut()
    whole = build.op("Cast", y, to=I64)
    seven = build.constant(np.array(7, np.int64))
    assert build.op("Div", whole, seven).shape == (N, 3)
    with pytest.raises(VerifyError, match="integer divisors"):
        build.op("Div", seven, whole)


def test_folding_leaves_bounded_results_alone():
    function = Function("main")
    build = Builder(function)
    x, n = build.constant(np.arange(3, dtype=np.float32)), build.constant(np.array(2, np.int64))
    function.outputs, function.output_names = [build.op("Cut", x, n, axis=0, count="n")], ["y"]
    assert not Fold().run(function)
    assert evaluate_function(function, {})["y"].tolist() == [0, 1]
