"""GRU and the simple RNN."""

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
    Cell,
    Direction,
    Sequences,
    infer_layer,
    lower_layer,
    matrix,
    part,
    span,
)
from tilewright.ops.through_float32 import through_float32
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
_OPERANDS = [
    Operand("x", FLOATS),
    Operand("w", FLOATS),
    Operand("r", FLOATS),
    Operand("b", FLOATS, optional=True),
    Operand("sequence_lens", ("i32",), optional=True),
    Operand("h0", FLOATS, optional=True),
]
_RESULTS = [Operand("y", FLOATS), Operand("y_h", FLOATS)]
_COMMON = {"hidden_size": Attr("int", required=True), "direction": Attr("str", "forward"), **ATTRS}


def _activations(name: str, attrs: Attrs) -> list[list[Activation]]:
    default = ("sigmoid", "tanh") if name == "GRU" else ("tanh",)
    return activations_of(name, attrs, default, len(DIRECTIONS[attrs["direction"]]))


def _infer(name: str, gates: int, types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    results = infer_layer(name, gates, {5: ("h0", 0)}, types, attrs)
    _activations(name, attrs)
    if attrs["clip"] < 0:
        raise VerifyError(f"{name}: clip is {attrs['clip']}, expected a positive number")
    return results


def _start(arrays: Arrays, attrs: Attrs) -> tuple[Sequences, list[np.ndarray | None]]:
    """The run, and x, w, r, b in the type of the computation."""
    work = wide(required(arrays, 0).dtype)
    x, w, r, b, _, h0 = (None if a is None else a.astype(work) for a in arrays)
    assert x is not None
    return Sequences.start(x, arrays[4], [h0], attrs), [x, w, r, b]


def _finish(run: Sequences, like: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(a.astype(like.dtype, copy=False) for a in (run.y, run.states[0]))


# GRU: gates in the order z (update), r (reset), h (hidden)


def _gru_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    hidden, clip = attrs["hidden_size"], attrs["clip"]
    run, parts = _start(arrays, attrs)
    x, w, r = (required(parts, index) for index in range(3))
    (h,), b = run.states, parts[3]
    for d, (f, g) in enumerate(_activations("GRU", attrs)):
        into, back = (0, np.zeros(3 * hidden, x.dtype)) if b is None else np.split(b[d], 2)
        entering = x @ w[d].T + into
        for t in run.steps(d):
            ez, er, eh = np.split(entering[t], 3, axis=1)
            wz, wr, wh = np.split(r[d], 3)
            bz, br, bh = np.split(back, 3)
            z = f.numeric(clipped(ez + h[d] @ wz.T + bz, clip))
            reset = f.numeric(clipped(er + h[d] @ wr.T + br, clip))
            linear = (
                (h[d] @ wh.T + bh) * reset if attrs["linear_before_reset"] else (reset * h[d]) @ wh.T + bh
            )
            fresh = g.numeric(clipped(eh + linear, clip))
            run.put(t, d, [(1 - z) * fresh + z * h[d]])
    return _finish(run, required(arrays, 0))


def _gru_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    attrs = attributes(node)
    activations, hidden = _activations("GRU", attrs), attrs["hidden_size"]
    linear_first = bool(attrs["linear_before_reset"])

    def direction(number: int) -> Direction:
        recurrent = matrix(build, node, 2, number)
        both = part(build, node, 3, number, (2, 3 * hidden))
        if linear_first:
            bias, kept = _split_bias(build, both, hidden)
            captures = [recurrent] if kept is None else [recurrent, kept]
            return Direction(bias, captures, _linear_cell(activations[number], attrs["clip"], hidden))
        bias = None if both is None else build.op("ReduceSum", both, axes=(0,), keepdims=False)
        gates = span(build, recurrent, 1, 0, 2 * hidden)
        fresh = span(build, recurrent, 1, 2 * hidden, 3 * hidden)
        return Direction(bias, [gates, fresh], _reset_cell(activations[number], attrs["clip"], hidden))

    return lower_layer(build, node, (5,), direction)


def _split_bias(build: Builder, both: Value | None, hidden: int) -> tuple[Value | None, Value | None]:
    """What is added before the scan, and the recurrent bias of the hidden gate, which the reset scales."""
    if both is None:
        return None, None
    into = build.op("Reshape", span(build, both, 0, 0, 1), shape=(3 * hidden,))
    back = build.op("Reshape", span(build, both, 0, 1, 2), shape=(3 * hidden,))
    gates = span(build, back, 0, 0, 2 * hidden)
    kept = span(build, back, 0, 2 * hidden, 3 * hidden)
    zeros = build.constant(np.zeros(hidden, both.dtype.numpy), "zeros")
    return build.op("Add", into, build.op("Concat", gates, zeros, axis=0)), kept


def _reset_cell(activations: Sequence[Activation], clip: float, hidden: int) -> Cell:
    """The hidden gate reads the state that the reset gate has scaled: captures are [H, 2H] and [H, H]."""
    f, g = activations

    def cell(
        build: Builder, states: Sequence[Value], gates: Value, captures: Sequence[Value]
    ) -> Sequence[Value]:
        (h,) = states
        ez, er, eh = build.ops("Split", gates, axis=1, sizes=(hidden,) * 3)
        z, r = build.ops("Split", build.op("MatMul", h, captures[0]), axis=1, sizes=(hidden,) * 2)
        z = f.emit(build, emit_clipped(build, build.op("Add", ez, z), clip))
        r = f.emit(build, emit_clipped(build, build.op("Add", er, r), clip))
        linear = build.op("MatMul", build.op("Mul", r, h), captures[1])
        fresh = g.emit(build, emit_clipped(build, build.op("Add", eh, linear), clip))
        return [_mix(build, z, fresh, h)]

    return cell


def _linear_cell(activations: Sequence[Activation], clip: float, hidden: int) -> Cell:
    """The reset gate scales the product with the state: captures are [H, 3H] and the bias [H]."""
    f, g = activations

    def cell(
        build: Builder, states: Sequence[Value], gates: Value, captures: Sequence[Value]
    ) -> Sequence[Value]:
        (h,) = states
        ez, er, eh = build.ops("Split", gates, axis=1, sizes=(hidden,) * 3)
        z, r, linear = build.ops("Split", build.op("MatMul", h, captures[0]), axis=1, sizes=(hidden,) * 3)
        z = f.emit(build, emit_clipped(build, build.op("Add", ez, z), clip))
        r = f.emit(build, emit_clipped(build, build.op("Add", er, r), clip))
        if len(captures) > 1:
            linear = build.op("Add", linear, captures[1])
        entering = build.op("Add", eh, build.op("Mul", r, linear))
        return [_mix(build, z, g.emit(build, emit_clipped(build, entering, clip)), h)]

    return cell


def _mix(build: Builder, z: Value, fresh: Value, h: Value) -> Value:
    """(1 - z) fresh + z h."""
    one = build.constant(np.ones((), h.dtype.numpy), "one")
    return build.op("Add", build.op("Mul", build.op("Sub", one, z), fresh), build.op("Mul", z, h))


operator(
    "GRU",
    "gated recurrent unit over x [T, B, I]: gates in the order z, r, h, one or two directions",
    _OPERANDS,
    _RESULTS,
    lambda types, attrs: _infer("GRU", 3, types, attrs),
    _gru_evaluate,
    {**_COMMON, "linear_before_reset": Attr("bool", False)},
    lower=through_float32(_gru_lower),
)


# RNN


def _rnn_evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    run, parts = _start(arrays, attrs)
    x, w, r = (required(parts, index) for index in range(3))
    (h,), b = run.states, parts[3]
    for d, (f,) in enumerate(_activations("RNN", attrs)):
        entering = x @ w[d].T + (0 if b is None else np.add(*np.split(b[d], 2)))
        for t in run.steps(d):
            run.put(t, d, [f.numeric(clipped(entering[t] + h[d] @ r[d].T, attrs["clip"]))])
    return _finish(run, required(arrays, 0))


def _rnn_lower(build: Builder, node: Node) -> tuple[Value, ...]:
    attrs = attributes(node)
    activations, hidden = _activations("RNN", attrs), attrs["hidden_size"]

    def direction(number: int) -> Direction:
        both = part(build, node, 3, number, (2, hidden))
        bias = None if both is None else build.op("ReduceSum", both, axes=(0,), keepdims=False)
        (f,) = activations[number]

        def cell(
            build: Builder, states: Sequence[Value], gates: Value, captures: Sequence[Value]
        ) -> Sequence[Value]:
            total = build.op("Add", gates, build.op("MatMul", states[0], captures[0]))
            return [f.emit(build, emit_clipped(build, total, attrs["clip"]))]

        return Direction(bias, [matrix(build, node, 2, number)], cell)

    return lower_layer(build, node, (5,), direction)


operator(
    "RNN",
    "simple recurrent layer over x [T, B, I], one or two directions",
    _OPERANDS,
    _RESULTS,
    lambda types, attrs: _infer("RNN", 1, types, attrs),
    _rnn_evaluate,
    _COMMON,
    lower=through_float32(_rnn_lower),
)
