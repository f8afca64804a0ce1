"""Products of i32 as products of bytes: exactly the same sums, and what is left alone, with the reason."""

import numpy as np
import pytest
from pass_checks import Graph, keeps, node_of, operators

from tilewright.dtypes import I8, I32, U8
from tilewright.graph.ir import Constant
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.dce import Dce
from tilewright.passes.narrow_products import NarrowProducts
from tilewright.passes.verify import verify_function

PADS = {"pads": (1, 0, 2, 1)}


class Always:
    """A target for which products of bytes pay."""

    def algorithms(self, node):
        return {"direct": 2.0, "int8": 1.0}


class Never(Always):
    """A target without them."""

    def algorithms(self, node):
        return {}


def feeds(function, seed=0):
    """Numbers over the whole range of bytes; small ones of i32."""
    rng = np.random.default_rng(seed)
    types = {value.name: (value.dtype.numpy, value.shape) for value in function.inputs}
    ranges = {"u": (0, 256), "i": (-128, 128)}
    return {n: rng.integers(*ranges[t.kind], shape).astype(t) for n, (t, shape) in types.items()}


def narrows(function):
    """Runs the pass; results are the same numbers."""
    inputs = feeds(function)
    before = evaluate_function(function, inputs)
    assert NarrowProducts(Always()).run(function)
    Dce().run(function)
    verify_function(function)
    for name, after in evaluate_function(function, inputs).items():
        np.testing.assert_array_equal(after, before[name])
    assert not NarrowProducts(Always()).run(function)
    return function


def centred(graph, x, zero):
    """x - zero in i32; None: no zero point."""
    whole = graph.op("Cast", x, to=I32)
    if zero is None:
        return whole
    return graph.op(
        "Sub", whole, zero if hasattr(zero, "type") else graph.constant(np.asarray(zero, np.int32))
    )


def numbers(graph, *shape, low=-128, high=128, name="w"):
    return graph.constant(graph.random.integers(low, high, shape).astype(np.int32), name)


@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize("zero", [None, 0, 7, 120])
@pytest.mark.parametrize(
    ("shape", "weights", "attrs"),
    [
        ((2, 8, 6, 5), (5, 8, 3, 3), PADS),
        ((2, 8, 6, 5), (5, 8, 3, 3), {"strides": (2, 1)}),
        ((1, 3, 6, 5), (5, 3, 3, 2), PADS),
        ((1, 6, 5, 5), (6, 1, 3, 3), PADS | {"group": 6}),
        ((1, 6, 5, 5), (4, 3, 3, 3), PADS | {"group": 2}),
    ],
)
def test_convolutions(dtype, zero, shape, weights, attrs):
    graph = Graph()
    x, bias = centred(graph, graph.input(*shape, dtype=dtype), zero), numbers(graph, weights[0], name="b")
    function = narrows(graph.returning(graph.op("Conv", x, numbers(graph, *weights), bias, **attrs)))
    node = node_of(function, "Conv")
    assert [value.dtype for value in node.inputs] == [U8, I8, I32]
    known = (zero or 0) + (128 if dtype == I8 else 0)
    assert node.attrs["pad_value"] == (known if "pads" in attrs else 0)
    raised = ["Cast", "Add"] if dtype == I8 else []
    filled = ["Pad"] if shape[1] == 3 else []
    assert operators(function) == [*raised, *filled, "Conv"]


@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize("zero", [None, -3, 100])
@pytest.mark.parametrize(("shape", "depth"), [((5, 8), 8), ((2, 3, 7), 7), ((1, 130), 130)])
def test_matrix_products(dtype, zero, shape, depth):
    graph = Graph()
    a = centred(graph, graph.input(*shape, dtype=dtype), zero)
    function = narrows(graph.returning(graph.op("MatMul", a, numbers(graph, depth, 6))))
    assert [value.dtype for value in node_of(function, "MatMul").inputs] == [U8, I8]
    assert ("Sub" in operators(function)) == (dtype == I8 or zero is not None)


@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize(
    ("op", "shape", "weights", "attrs"),
    [
        ("MatMul", (3, 8), (8, 5), {}),
        ("Conv", (1, 4, 5, 5), (3, 4, 2, 2), {}),
        ("Conv", (2, 4, 5, 5), (3, 4, 3, 2), PADS | {"strides": (2, 1)}),
        ("Conv", (1, 4, 6, 5), (4, 1, 3, 3), PADS | {"group": 4}),
        ("Conv", (1, 6, 5, 5), (4, 3, 3, 3), PADS | {"group": 2}),
    ],
)
def test_a_zero_point_that_is_computed(op, shape, weights, attrs, dtype):
    """With padding there is a sum for each result."""
    graph = Graph()
    point = graph.op("Cast", graph.input(1, name="zero", dtype=dtype), to=I32)
    x = centred(graph, graph.input(*shape, dtype=dtype), point)
    bias = [numbers(graph, weights[0], name="b")] if op == "Conv" else []
    function = narrows(graph.returning(graph.op(op, x, numbers(graph, *weights), *bias, **attrs)))
    node, times = node_of(function, op), node_of(function, "Mul")
    assert node.operand(0).dtype == U8
    wanted = {0: weights[-1:], 1: weights[:1], 2: (1, *node.output.shape[1:])}
    assert times.output.shape == wanted[bool(bias) + bool(attrs)]


def test_a_bias_that_is_computed():
    graph = Graph()
    x = centred(graph, graph.input(1, 4, 3, 3, dtype=U8), 9)
    bias = graph.input(2, name="b", dtype=I32)
    function = narrows(graph.returning(graph.op("Conv", x, numbers(graph, 2, 4, 1, 1), bias)))
    assert operators(function) == ["Sub", "Conv"]


def test_no_zero_point_needs_no_bias():
    graph = Graph()
    x = centred(graph, graph.input(1, 4, 3, 3, dtype=U8), None)
    function = narrows(graph.returning(graph.op("Conv", x, numbers(graph, 2, 4, 1, 1))))
    assert all(value is None for value in node_of(function, "Conv").inputs[2:])


def test_what_several_products_read_is_raised_once():
    graph = Graph()
    x = centred(graph, graph.input(1, 4, 3, 3, dtype=I8), 9)
    results = [graph.op("Conv", x, numbers(graph, 2, 4, 1, 1)) for _ in range(2)]
    assert operators(narrows(graph.returning(*results))) == ["Cast", "Add", "Conv", "Conv"]


def test_axes_that_are_filled_up_are_told_apart():
    graph = Graph()
    x = centred(graph, graph.input(1, 3, 7, dtype=I8), 9)
    first = graph.op("Conv", x, numbers(graph, 2, 3, 3))
    second = graph.op("MatMul", x, numbers(graph, 7, 2))
    function = narrows(graph.returning(first, second, graph.op("Conv", x, numbers(graph, 4, 3, 1))))
    assert operators(function) == ["Cast", "Add", "Pad", "Conv", "Pad", "MatMul", "Sub", "Conv"]


def test_sums_wrap_alike():
    graph = Graph()
    x = centred(graph, graph.input(1, 4, dtype=U8), 2**31 - 1)
    weights = graph.constant(np.full((4, 2), -128, np.int32))
    narrows(graph.returning(graph.op("MatMul", x, weights)))


@pytest.mark.parametrize(
    ("low", "high", "products"), [(-128, 127, 1), (-129, 0, 2), (-255, 254, 2), (0, 255, 3)]
)
@pytest.mark.parametrize(
    ("op", "shape", "weights", "attrs"),
    [("Conv", (1, 4, 5, 5), (3, 4, 3, 3), PADS), ("MatMul", (5, 7), (7, 3), {})],
)
def test_weights_that_exceed_i8_are_a_sum(op, shape, weights, attrs, low, high, products):
    graph = Graph()
    w = numbers(graph, *weights, low=low, high=high)
    w.data.flat[:2] = low, high
    x = centred(graph, graph.input(*shape, dtype=U8), 3)
    function = narrows(graph.returning(graph.op(op, x, w, **attrs)))
    assert operators(function).count(op) == products
    assert operators(function).count("Add") == products - 1


@pytest.mark.parametrize(
    ("reason", "zero", "limit", "attrs"),
    [
        ("weights are no differences of bytes", 5, 257, {}),
        ("padding exceeds u8", 256, 128, PADS),
        ("padding exceeds u8", -1, 128, PADS),
        ("several zero points", "many", 128, {}),
        ("weights are computed", 5, 0, {}),
    ],
)
def test_the_reason_is_noted_where_i32_stays(reason, zero, limit, attrs):
    graph = Graph()
    if zero == "many":
        zero = graph.constant(np.arange(4, dtype=np.int32).reshape(4, 1, 1))
    weights = graph.input(3, 4, 1, 1, name="w", dtype=I32) if not limit else numbers(graph, 3, 4, 1, 1)
    if isinstance(weights, Constant):
        weights.data.flat[0] = limit - 1
    x = centred(graph, graph.input(1, 4, 5, 5, dtype=U8), zero)
    function = graph.returning(graph.op("Conv", x, weights, **attrs))
    assert not NarrowProducts(Always()).run(function)
    note = node_of(function, "Conv").notes["algorithm"]
    assert note == {"chosen": "direct", "cycles": {"direct": 2, "int8": 1}, "reason": reason}


def test_other_products_are_left_alone():
    graph = Graph()
    x = graph.input(1, 4, 3, 3, name="i", dtype=I32)
    wide = centred(graph, graph.input(1, 1, 3, 3, dtype=U8), np.zeros((1, 4, 1, 1)))
    floats = graph.op("Conv", graph.input(1, 4, 3, 3, name="f"), graph.weights(2, 4, 1, 1))
    results = [graph.op("Conv", v, numbers(graph, 2, 4, 1, 1)) for v in (x, wide)]
    keeps(graph.returning(*results, floats), NarrowProducts(Always()))
    graph = Graph()
    x = centred(graph, graph.input(1, 4, 3, 3, dtype=U8), 3)
    keeps(graph.returning(graph.op("Conv", x, numbers(graph, 2, 4, 1, 1))), NarrowProducts(Never()))
