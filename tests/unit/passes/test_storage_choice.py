"""The minimum cut finds what trying all choices finds."""

from itertools import product
from math import inf

import numpy as np
import pytest

import tilewright.ops.all
from tilewright.dtypes import F32
from tilewright.graph.ir import Function
from tilewright.ops.operator import Builder
from tilewright.passes.storage_choice import Decision, choose, follows
from tilewright.storage import PLAIN, Storage, Wish
from tilewright.types import TensorType

assert tilewright.ops.all

LAST = Storage("acdb")


class Prices:
    """What a Pack costs, by the value's number of elements."""

    def __init__(self, price: float) -> None:
        self.price = price

    def pack_cost(self, type: TensorType) -> float:
        return self.price * type.size


def random_function(rng: np.random.Generator) -> tuple[Function, dict]:
    """Sigmoids that wish, Relus and Adds that follow, Softmaxes that must be plain."""
    function = Function("main")
    builder = Builder(function)
    values = [function.add_input("x", TensorType(F32, (1, 2, 3, 3)))]
    wishes = {}
    for _ in range(rng.integers(2, 9)):
        source = values[rng.integers(len(values))]
        kind = rng.integers(4)
        if kind == 0:
            values.append(builder.op("Softmax", source, axis=1))
        elif kind == 1:
            values.append(builder.op("Relu", source))
        elif kind == 2:
            values.append(builder.op("Add", source, values[rng.integers(len(values))]))
        else:
            values.append(builder.op("GlobalMaxPool" if rng.random() < 0.2 else "Sigmoid", source))
            output = PLAIN if rng.random() < 0.2 else LAST
            wishes[values[-1].producer] = Wish((LAST,), output, gain=float(rng.integers(1, 40)))
    function.outputs = [values[-1], values[rng.integers(1, len(values))]]
    function.output_names = ["a", "b"]
    return function, wishes


def cost(function: Function, wishes: dict, chosen: dict, prices: Prices) -> float:
    """Gains given up and Packs, for a label of every node that wishes or follows."""
    total = sum(wish.gain for node, wish in wishes.items() if not chosen[node])
    written = {}
    for node in function.nodes:
        turned = chosen.get(node, False) and (node not in wishes or wishes[node].output == LAST)
        written |= dict.fromkeys(node.outputs, turned)
    for value in {id(v): v for n in function.nodes for v in n.inputs}.values():
        own = written.get(value, False)
        readers = [
            chosen.get(n, False)
            for n in function.nodes
            if any(v is value for v in n.inputs)
            and (not follows(n) or n in wishes or value.shape == n.output.shape)
        ]
        readers += [False for v in function.outputs if v is value]
        total += prices.pack_cost(value.type) if any(r != own for r in readers) else 0
    for value in {id(v): v for v in function.outputs}.values():
        read = any(v is value for n in function.nodes for v in n.inputs)
        total += prices.pack_cost(value.type) if written.get(value, False) and not read else 0
    return total


@pytest.mark.parametrize("seed", range(60))
def test_the_cut_is_the_best_choice(seed):
    rng = np.random.default_rng(seed)
    function, wishes = random_function(rng)
    prices = Prices(float(rng.choice([0.1, 0.5, 1.5])))
    free = [n for n in function.nodes if n in wishes or follows(n)]
    best = min(
        cost(function, wishes, dict(zip(free, labels, strict=True)), prices)
        for labels in product([False, True], repeat=len(free))
    )
    choice = choose(function, wishes, prices)
    labels = {n: choice.decisions[n].granted if n in wishes else n in choice.turned for n in free}
    assert cost(function, wishes, labels, prices) == pytest.approx(best)
    for decision in choice.decisions.values():
        lost = decision.packs_wished - decision.packs_plain
        assert decision.gain >= lost - 1e-9 if decision.granted else decision.gain < lost


def test_a_decision_tells_what_was_weighed():
    function = Function("main")
    builder = Builder(function)
    x = function.add_input("x", TensorType(F32, (1, 2, 3, 3)))
    y = builder.op("Sigmoid", x)
    function.outputs, function.output_names = [y], ["y"]
    (node,) = function.nodes
    for gain, granted in ((37.0, True), (35.0, False)):
        wishes = {node: Wish((LAST,), LAST, gain=gain)}
        decisions = choose(function, wishes, Prices(1.0)).decisions
        assert decisions == {node: Decision(granted, gain, 36.0, 0.0)}


def test_wishes_for_plain_activations_are_always_granted():
    function = Function("main")
    x = function.add_input("x", TensorType(F32, (4, 4)))
    y = Builder(function).op("MatMul", x, function.constant(np.ones((4, 4), np.float32)))
    function.outputs, function.output_names = [y], ["y"]
    (node,) = function.nodes
    wishes = {node: Wish((PLAIN, Storage("Ba16b")), PLAIN)}
    assert choose(function, wishes, Prices(1.0)).decisions == {node: Decision(True, inf)}
