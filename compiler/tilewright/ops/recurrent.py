"""LSTM: one matrix product of the input for all steps, then a Scan with one product a step for the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.control import scan
from tilewright.ops.declaration import FLOATS, attributes, operator, required, same_dtype, wide
from tilewright.ops.elementwise import sigmoid
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.types import TensorType

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    floats = [type for index, type in enumerate(types) if index != 4]
    same_dtype("LSTM", floats)
    x, hidden = required(types, 0), attrs["hidden_size"]
    if x.rank != 3:
        raise VerifyError(f"LSTM: input has rank {x.rank}, expected 3: steps, batch, features")
    if attrs["direction"] not in _DIRECTIONS:
        raise VerifyError(
            f"LSTM: direction '{attrs['direction']}' is unknown, expected {', '.join(_DIRECTIONS)}"
        )
    steps, batch, features = x.shape
    directions = len(_DIRECTIONS[attrs["direction"]])
    wanted = {
        1: ("w", (directions, 4 * hidden, features)),
        2: ("r", (directions, 4 * hidden, hidden)),
        3: ("b", (directions, 8 * hidden)),
        4: ("sequence_lens", (batch,)),
        5: ("h0", (directions, batch, hidden)),
        6: ("c0", (directions, batch, hidden)),
        7: ("p", (directions, 3 * hidden)),
    }
    for index, (name, shape) in wanted.items():
        type = types[index]
        if type is not None and type.shape != shape:
            raise VerifyError(f"LSTM: {name} has shape {list(type.shape)}, expected {list(shape)}")
    state = TensorType(x.dtype, (directions, batch, hidden))
    return (TensorType(x.dtype, (steps, directions, batch, hidden)), state, state)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, hidden = required(arrays, 0), attrs["hidden_size"]
    work = wide(x.dtype)
    w, r, b, _, h0, c0, p = (None if a is None else a.astype(work) for a in arrays[1:])
    assert w is not None
    assert r is not None
    source, (steps, batch, _) = x.astype(work), x.shape
    lens = np.full(batch, steps) if arrays[4] is None else arrays[4]
    reverses = _DIRECTIONS[attrs["direction"]]
    y = np.zeros((steps, len(reverses), batch, hidden), work)
    h = np.zeros((len(reverses), batch, hidden), work) if h0 is None else h0
    c = np.zeros((len(reverses), batch, hidden), work) if c0 is None else c0
    for d, reverse in enumerate(reverses):
        bias = 0 if b is None else b[d, : 4 * hidden] + b[d, 4 * hidden :]
        entering = source @ w[d].T + bias
        peep_i, peep_o, peep_f = (0, 0, 0) if p is None else np.split(p[d], 3)
        for t in reversed(range(steps)) if reverse else range(steps):
            gates = entering[t] + h[d] @ r[d].T
            i, o, f, g = np.split(gates, 4, axis=1)
            cell = sigmoid(f + peep_f * c[d]) * c[d] + sigmoid(i + peep_i * c[d]) * np.tanh(g)
            out = sigmoid(o + peep_o * cell) * np.tanh(cell)
            running = (t < lens)[:, None]
            c[d], h[d] = np.where(running, cell, c[d]), np.where(running, out, h[d])
            y[t, d] = np.where(running, out, 0)
    return tuple(a.astype(x.dtype, copy=False) for a in (y, h, c))


@dataclass
class _Direction:
    """Operands of one direction: shapes [I, 4H], [H, 4H], [4H], [B, H], [B, H] and three of [H]."""

    weights: Value
    recurrent: Value
    bias: Value | None
    h: Value
    c: Value
    peepholes: tuple[Value, ...]


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    attrs = attributes(node)
    x, hidden = node.operand(0), attrs["hidden_size"]
    steps, batch, features = x.shape
    rows = build.op("Reshape", x, shape=(steps * batch, features))
    running = _running(build, node, steps, batch)
    results: list[list[Value]] = []
    for number, reverse in enumerate(_DIRECTIONS[attrs["direction"]]):
        operands = _direction(build, node, number, hidden, batch)
        gates = build.op("MatMul", rows, operands.weights)
        if operands.bias is not None:
            gates = build.op("Add", gates, operands.bias)
        gates = build.op("Reshape", gates, shape=(steps, batch, 4 * hidden))
        scans = [gates] if running is None else [gates, running]
        captures = (operands.recurrent, *operands.peepholes)
        body = _cell(x.type, batch, hidden, running is not None, bool(operands.peepholes))
        h, c, y = scan(build, body, [operands.h, operands.c], scans, captures, reverse)
        results.append(
            [
                build.op("Reshape", y, shape=(steps, 1, batch, hidden)),
                build.op("Reshape", h, shape=(1, batch, hidden)),
                build.op("Reshape", c, shape=(1, batch, hidden)),
            ]
        )
    if len(results) == 1:
        return tuple(results[0])
    axes = (1, 0, 0)
    return tuple(build.op("Concat", *parts, axis=axis) for axis, *parts in zip(axes, *results, strict=True))


def _running(build: Builder, node: Node, steps: int, batch: int) -> Value | None:
    """bool[T, B, 1]: the step belongs to the sequence; None without sequence lengths."""
    lens = node.inputs[4] if len(node.inputs) > 4 else None
    if lens is None:
        return None
    numbers = np.arange(steps, dtype=lens.dtype.numpy).reshape(steps, 1, 1)
    column = build.op("Reshape", lens, shape=(1, batch, 1))
    return build.op("Less", build.constant(numbers, "steps"), column)


def _direction(build: Builder, node: Node, number: int, hidden: int, batch: int) -> _Direction:
    given = [*node.inputs, *(None for _ in range(8 - len(node.inputs)))]

    def part(index: int, shape: tuple[int, ...]) -> Value | None:
        value = given[index]
        return None if value is None else build.op("Reshape", row(build, value, number), shape=shape)

    def matrix(index: int) -> Value:
        value = node.operand(index)
        flat = build.op("Reshape", row(build, value, number), shape=value.shape[1:])
        return build.op("Transpose", flat, perm=(1, 0))

    def state(index: int) -> Value:
        value = part(index, (batch, hidden))
        return value or build.constant(np.zeros((batch, hidden), node.operand(0).dtype.numpy), "state")

    both = part(3, (2, 4 * hidden))
    bias = None if both is None else build.op("ReduceSum", both, axes=(0,), keepdims=False)
    peepholes = part(7, (3 * hidden,))
    split = () if peepholes is None else tuple(build.ops("Split", peepholes, axis=0, sizes=(hidden,) * 3))
    return _Direction(matrix(1), matrix(2), bias, state(5), state(6), split)


def row(build: Builder, value: Value, number: int) -> Value:
    """value[number : number + 1] along axis 0."""
    if value.shape[0] == 1:
        return value
    rank = value.type.rank
    return build.op(
        "Slice",
        value,
        starts=(number, *(0 for _ in range(rank - 1))),
        ends=(number + 1, *value.shape[1:]),
        axes=tuple(range(rank)),
        steps=(1,) * rank,
    )


def _cell(x: TensorType, batch: int, hidden: int, masked: bool, peepholes: bool) -> Function:
    """One step: (h, c, gates, running?, recurrent, peepholes?) -> (h, c, y); gates in order i, o, f, c."""
    body = Function("lstm_cell")
    state = TensorType(x.dtype, (batch, hidden))
    h, c = body.add_input("h", state), body.add_input("c", state)
    gates = body.add_input("gates", TensorType(x.dtype, (batch, 4 * hidden)))
    running = body.add_input("running", TensorType(BOOL, (batch, 1))) if masked else None
    recurrent = body.add_input("recurrent", TensorType(x.dtype, (hidden, 4 * hidden)))
    names = ("peep_i", "peep_o", "peep_f") if peepholes else ()
    peeps = {name: body.add_input(name, TensorType(x.dtype, (hidden,))) for name in names}
    build = Builder(body)
    total = build.op("Add", gates, build.op("MatMul", h, recurrent))
    i, o, f, g = build.ops("Split", total, axis=1, sizes=(hidden,) * 4)

    def gate(value: Value, name: str, cell: Value) -> Value:
        if name in peeps:
            value = build.op("Add", value, build.op("Mul", cell, peeps[name]))
        return build.op("Sigmoid", value)

    kept = build.op("Mul", gate(f, "peep_f", c), c)
    cell = build.op("Add", kept, build.op("Mul", gate(i, "peep_i", c), build.op("Tanh", g)))
    out = build.op("Mul", gate(o, "peep_o", cell), build.op("Tanh", cell))
    y = out
    if running is not None:
        zero = build.constant(np.zeros((), x.dtype.numpy), "zero")
        y = build.op("Where", running, out, zero)
        out, cell = build.op("Where", running, out, h), build.op("Where", running, cell, c)
    body.outputs, body.output_names = [out, cell, y], ["h", "c", "y"]
    return body


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
    {"hidden_size": Attr("int", required=True), "direction": Attr("str", "forward")},
    lower=_lower,
)
