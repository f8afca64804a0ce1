"""All passes together on random graphs: valid after each, and the numbers stay."""

from collections.abc import Callable

import numpy as np
import pytest
from pass_checks import Graph, random_inputs

from tilewright.graph.ir import Function, Value
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.registry import PASSES, parse_passes
from tilewright.passes.verify import verify_function

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)

# Every step maps [1, 4, 6, 6] to itself, so that any sequence of them is a graph.
STEPS: dict[str, Callable[[Graph, Value, Value], Value]] = {
    "conv": lambda g, x, _: g.op("Conv", x, g.weights(4, 2, 3, 3), group=2, pads=(1, 1, 1, 1)),
    "padded conv": lambda g, x, _: g.op("Conv", _padded(g, x), g.weights(4, 4, 3, 3), g.weights(4)),
    "transposed conv": lambda g, x, _: g.op("ConvTranspose", x, g.weights(4, 4, 1, 1)),
    "norm": lambda g, x, _: g.batch_norm(x, 4),
    "bias": lambda g, x, _: g.op("Add", x, g.weights(4, 1, 1)),
    "scale": lambda g, x, _: g.op("Mul", g.weights(1, 4, 1, 1), x),
    "relu": lambda g, x, _: g.op("Relu", x),
    "clip": lambda g, x, _: g.op("Clip", x, g.constant(-0.5), g.constant(2.0)),
    "nothing": lambda g, x, _: g.op("Add", g.op("Mul", x, g.constant(1.0)), g.constant(np.zeros(6))),
    "sum": lambda g, x, z: g.op("Add", x, z),
    "larger": lambda g, x, z: g.op("Max", x, z),
    "to last": lambda g, x, _: _around(g, x, lambda y: g.op("Add", y, g.weights(4))),
    "softmax": lambda g, x, _: g.op("Softmax", x, axis=1),
    "mean": lambda g, x, _: g.op("Sub", x, g.op("ReduceMean", x, axes=(2, 3), keepdims=True)),
    "pool": lambda g, x, _: g.op("AveragePool", _padded(g, x), kernel_shape=(3, 3)),
    "flat": lambda g, x, _: g.op("Reshape", g.op("Reshape", x, shape=(4, 36)), shape=(1, 4, 6, 6)),
    "halves": lambda g, x, _: g.op("Concat", *g.ops("Split", x, axis=1, sizes=(1, 3))[::-1], axis=1),
    "constants": lambda g, x, _: g.op("Add", x, g.op("Tanh", g.op("Neg", g.weights(6)))),
}


def _padded(graph: Graph, x: Value) -> Value:
    return graph.op("Pad", x, pads=(0, 0, 1, 1, 0, 0, 1, 1))


def _around(graph: Graph, x: Value, inner: Callable[[Value], Value]) -> Value:
    return graph.op("Transpose", inner(graph.op("Transpose", x, perm=TO_LAST)), perm=TO_FIRST)


def _random_function(random: np.random.Generator) -> Function:
    graph = Graph()
    values: list[Value] = [graph.input(1, 4, 6, 6), graph.input(1, 4, 6, 6, name="z")]
    for _ in range(20):
        x, z = (values[int(at)] for at in random.integers(max(0, len(values) - 3), len(values), 2))
        y = STEPS[str(random.choice(list(STEPS)))](graph, x, z)
        # Keeps magnitudes near 1, so that rounding does not depend on the depth of the graph.
        values.append(graph.op("Tanh", y) if random.random() < 0.3 else y)
    return graph.returning(values[-1], values[int(random.integers(2, len(values)))])


@pytest.mark.parametrize("seed", range(25))
def test_any_order_of_passes(seed: int):
    random = np.random.default_rng(seed)
    function = _random_function(random)
    inputs = random_inputs(function)
    wanted = evaluate_function(function, inputs, np.dtype(np.float64))
    order = [*random.permutation([name for name in PASSES if name != "fuse"]), "fuse"]
    for item in (*parse_passes(",".join(order)), *parse_passes("dce")):
        item.run(function)
        verify_function(function)
    for name, found in evaluate_function(function, inputs, np.dtype(np.float64)).items():
        # Weights that were folded are rounded to float32 once; everything else is exact here.
        error = np.linalg.norm(found - wanted[name]) / max(np.linalg.norm(wanted[name]), 1e-6)
        assert error < 1e-5
