"""LSTM: one matrix product of the input for all steps, then a Scan with one product a step for the state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, attributes, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.ops.recurrent_activations import ATTRS, Activation, activations_of, clipped, emit_clipped
from tilewright.ops.recurrent_layer import (
    DIRECTIONS,
    Direction,
    Sequences,
    infer_layer,
    lower_layer,
    matrix,
    part,
)
from tilewright.ops.through_float32 import through_float32
from tilewright.types import TensorType

_DEFAULT = ("sigmoid", "tanh", "tanh")


def _activations(attrs: Attrs) -> list[list[Activation]]:
    return activations_of("LSTM", attrs, _DEFAULT, len(DIRECTIONS[attrs["direction"]]))


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    y, state = infer_layer("LSTM", 4, {5: ("h0", 0), 6: ("c0", 0), 7: ("p", 3)}, types, attrs)
    _activations(attrs)
    if attrs["clip"] < 0:
        raise VerifyError(f"LSTM: clip is {attrs['clip']}, expected a positive number")
    return (y, state, state)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, hidden, clip = required(arrays, 0), attrs["hidden_size"], attrs["clip"]
    work = wide(x.dtype)
    w, r, b, _, h0, c0, p = (None if a is None else a.astype(work) for a in arrays[1:])
    assert w is not None
    assert r is not None
    run = Sequences.start(x.astype(work), arrays[4], [h0, c0], attrs)
    h, c = run.states
    for d, (f, g, hf) in enumerate(_activations(attrs)):
        bias = 0 if b is None else b[d, : 4 * hidden] + b[d, 4 * hidden :]
        entering = x.astype(work) @ w[d].T + bias
        peep_i, peep_o, peep_f = (0, 0, 0) if p is None else np.split(p[d], 3)

        def gate(value: np.ndarray, function: Activation) -> np.ndarray:
            return function.numeric(clipped(value, clip))

        for t in run.steps(d):
            i, o, forget, new = np.split(entering[t] + h[d] @ r[d].T, 4, axis=1)
            into = gate(i + peep_i * c[d], f)
            kept = 1 - into if attrs["input_forget"] else gate(forget + peep_f * c[d], f)
            cell = kept * c[d] + into * gate(new, g)
            run.put(t, d, [gate(o + peep_o * cell, f) * gate(cell, hf), cell])
    return tuple(a.astype(x.dtype, copy=False) for a in (run.y, h, c))


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    attrs = attributes(node)
    activations, hidden = _activations(attrs), attrs["hidden_size"]

    def direction(number: int) -> Direction:
        both = part(build, node, 3, number, (2, 4 * hidden))
        bias = None if both is None else build.op("ReduceSum", both, axes=(0,), keepdims=False)
        peepholes = part(build, node, 7, number, (3 * hidden,))
        split = () if peepholes is None else build.ops("Split", peepholes, axis=0, sizes=(hidden,) * 3)
        captures = (matrix(build, node, 2, number), *split)
        return Direction(bias, captures, _Cell(activations[number], attrs))

    return lower_layer(build, node, (5, 6), direction)


class _Cell:
    """One step: (h, c), gates in the order i, o, f, c, (recurrent weights, peepholes?) -> (h, c)."""

    def __init__(self, activations: Sequence[Activation], attrs: Attrs) -> None:
        self.activations = activations
        self.clip = attrs["clip"]
        self.coupled = bool(attrs["input_forget"])
        self.hidden = attrs["hidden_size"]

    def __call__(
        self, build: Builder, states: Sequence[Value], gates: Value, captures: Sequence[Value]
    ) -> Sequence[Value]:
        f, g, h = self.activations
        before, c = states
        recurrent, *peepholes = captures
        peep_i, peep_o, peep_f = peepholes or (None, None, None)
        total = build.op("Add", gates, build.op("MatMul", before, recurrent))
        i, o, forget, new = build.ops("Split", total, axis=1, sizes=(self.hidden,) * 4)

        def gate(value: Value, function: Activation, peep: Value | None = None, cell: Value = c) -> Value:
            if peep is not None:
                value = build.op("Add", value, build.op("Mul", cell, peep))
            return function.emit(build, emit_clipped(build, value, self.clip))

        into = gate(i, f, peep_i)
        kept = self._complement(build, into) if self.coupled else gate(forget, f, peep_f)
        cell = build.op("Add", build.op("Mul", kept, c), build.op("Mul", into, gate(new, g)))
        return [build.op("Mul", gate(o, f, peep_o, cell), gate(cell, h)), cell]

    @staticmethod
    def _complement(build: Builder, value: Value) -> Value:
        return build.op("Sub", build.constant(np.ones((), value.dtype.numpy), "one"), value)


operator(
    "LSTM",
    "long short-term memory over x [T, B, I]: gates in the order i, o, f, c, one or two directions",
    [
        Operand("x", FLOATS),
        Operand("w", FLOATS),
        Operand("r", FLOATS),
        Operand("b", FLOATS, optional=True),
        Operand("sequence_lens", ("i32",), optional=True),
        Operand("h0", FLOATS, optional=True),
        Operand("c0", FLOATS, optional=True),
        Operand("p", FLOATS, optional=True),
    ],
    [Operand("y", FLOATS), Operand("y_h", FLOATS), Operand("y_c", FLOATS)],
    _infer,
    _evaluate,
    {
        "hidden_size": Attr("int", required=True),
        "direction": Attr("str", "forward"),
        "input_forget": Attr("bool", False),
        **ATTRS,
    },
    lower=through_float32(_lower),
)
