"""What RNN, GRU and LSTM share: their operands, and how a layer becomes one product and a Scan.

x W^T of all steps is one matrix product; only the product with the state is left to the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import BOOL
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.control import scan
from tilewright.ops.declaration import attributes, required, same_dtype
from tilewright.ops.operator import Attrs, Builder
from tilewright.types import TensorType

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
LENGTHS = 4  # the operand that holds the length of each sequence


def infer_layer(
    name: str,
    gates: int,
    rest: Mapping[int, tuple[str, int]],
    types: Sequence[TensorType | None],
    attrs: Attrs,
) -> tuple[TensorType, TensorType]:
    """Types of all outputs y [T, D, B, H] and of a state [D, B, H].

    rest: operands beyond the lengths, as (name, number of rows): [D, n H], or a state [D, B, H] when n is 0.
    """
    same_dtype(name, [type for index, type in enumerate(types) if index != LENGTHS])
    x, hidden = required(types, 0), attrs["hidden_size"]
    if x.rank != 3:
        raise VerifyError(f"{name}: input has rank {x.rank}, expected 3: steps, batch, features")
    if attrs["direction"] not in DIRECTIONS:
        known = ", ".join(DIRECTIONS)
        raise VerifyError(f"{name}: direction '{attrs['direction']}' is unknown, expected {known}")
    steps, batch, features = x.shape
    count = len(DIRECTIONS[attrs["direction"]])
    state = (count, batch, hidden)
    wanted: dict[int, tuple[str, tuple[int, ...]]] = {
        1: ("w", (count, gates * hidden, features)),
        2: ("r", (count, gates * hidden, hidden)),
        3: ("b", (count, 2 * gates * hidden)),
        LENGTHS: ("sequence_lens", (batch,)),
    }
    for index, (operand, rows) in rest.items():
        wanted[index] = (operand, (count, rows * hidden) if rows else state)
    for index, (operand, shape) in wanted.items():
        type = types[index]
        if type is not None and type.shape != shape:
            raise VerifyError(f"{name}: {operand} has shape {list(type.shape)}, expected {list(shape)}")
    return TensorType(x.dtype, (steps, count, batch, hidden)), TensorType(x.dtype, state)


@dataclass
class Sequences:
    """A NumPy run over the steps of one layer.

    y: outputs [T, D, B, H]; states: [D, B, H] each, the first is the output of the cell.
    """

    y: np.ndarray
    states: list[np.ndarray]
    reverses: tuple[bool, ...]
    lens: np.ndarray

    @staticmethod
    def start(
        x: np.ndarray, lens: np.ndarray | None, initial: Sequence[np.ndarray | None], attrs: Attrs
    ) -> Sequences:
        steps, batch, _ = x.shape
        reverses = DIRECTIONS[attrs["direction"]]
        shape = (len(reverses), batch, attrs["hidden_size"])
        states = [np.zeros(shape, x.dtype) if s is None else s.astype(x.dtype) for s in initial]
        every = np.full(batch, steps) if lens is None else lens
        return Sequences(np.zeros((steps, *shape), x.dtype), states, reverses, every)

    def steps(self, direction: int) -> Iterator[int]:
        count = self.y.shape[0]
        return iter(reversed(range(count)) if self.reverses[direction] else range(count))

    def put(self, t: int, direction: int, new: Sequence[np.ndarray]) -> None:
        """Take over the new states of the sequences that have a step t."""
        running = (t < self.lens)[:, None]
        self.y[t, direction] = np.where(running, new[0], 0)
        for state, fresh in zip(self.states, new, strict=True):
            state[direction] = np.where(running, fresh, state[direction])


Cell = Callable[[Builder, Sequence[Value], Value, Sequence[Value]], Sequence[Value]]


@dataclass
class Direction:
    """One direction of a layer to be lowered.

    bias: added to x W^T, [gates * H], or None; captures: what the cell reads at every step;
    cell: (build, states, gates of the step, captures) -> new states, the output first.
    """

    bias: Value | None
    captures: Sequence[Value]
    cell: Cell


def lower_layer(
    build: Builder,
    node: Node,
    initial: Sequence[int],
    direction_of: Callable[[int], Direction],
) -> tuple[Value, ...]:
    """y and the final states. initial: operands of the initial states; direction_of: by number."""
    attrs = attributes(node)
    x, hidden = node.operand(0), attrs["hidden_size"]
    steps, batch, _ = x.shape
    running = _running(build, node, steps, batch)
    results: list[list[Value]] = []
    for number, reverse in enumerate(DIRECTIONS[attrs["direction"]]):
        direction = direction_of(number)
        entering = build.op("MatMul", x, matrix(build, node, 1, number))
        if direction.bias is not None:
            entering = build.op("Add", entering, direction.bias)
        scans = [entering] if running is None else [entering, running]
        states = [_state(build, node, index, number, (batch, hidden)) for index in initial]
        body = _body(f"{node.op.lower()}_cell", states, entering, running is not None, direction)
        *final, y = scan(build, body, states, scans, direction.captures, reverse)
        shaped = [build.op("Reshape", state, shape=(1, batch, hidden)) for state in final]
        results.append([build.op("Reshape", y, shape=(steps, 1, batch, hidden)), *shaped])
    if len(results) == 1:
        return tuple(results[0])
    axes = (1, *(0 for _ in initial))
    return tuple(build.op("Concat", *parts, axis=axis) for axis, *parts in zip(axes, *results, strict=True))


def _body(
    name: str, states: Sequence[Value], entering: Value, masked: bool, direction: Direction
) -> Function:
    """One step: (states..., gates, running?, captures...) -> (states..., y)."""
    body = Function(name)
    before = [body.add_input(f"state{i}", state.type) for i, state in enumerate(states)]
    batch, dtype = entering.shape[1], entering.dtype
    gates = body.add_input("gates", TensorType(dtype, entering.shape[1:]))
    running = body.add_input("running", TensorType(BOOL, (batch, 1))) if masked else None
    captures = [body.add_input(f"capture{i}", value.type) for i, value in enumerate(direction.captures)]
    build = Builder(body)
    after = list(direction.cell(build, before, gates, captures))
    y = after[0]
    if running is not None:
        zero = build.constant(np.zeros((), dtype.numpy), "zero")
        y = build.op("Where", running, y, zero)
        after = [build.op("Where", running, new, old) for new, old in zip(after, before, strict=True)]
    body.outputs = [*after, y]
    body.output_names = [*(f"state{i}" for i in range(len(after))), "y"]
    return body


def _running(build: Builder, node: Node, steps: int, batch: int) -> Value | None:
    """bool[T, B, 1]: the step belongs to the sequence; None without sequence lengths."""
    lens = operand(node, LENGTHS)
    if lens is None:
        return None
    numbers = np.arange(steps, dtype=lens.dtype.numpy).reshape(steps, 1, 1)
    column = build.op("Reshape", lens, shape=(1, batch, 1))
    return build.op("Less", build.constant(numbers, "steps"), column)


def operand(node: Node, index: int) -> Value | None:
    """An operand that may be omitted."""
    return node.inputs[index] if index < len(node.inputs) else None


def part(build: Builder, node: Node, index: int, number: int, shape: tuple[int, ...]) -> Value | None:
    """What a direction has of an operand [D, ...], in another shape; None when it is omitted."""
    value = operand(node, index)
    return None if value is None else build.op("Reshape", row(build, value, number), shape=shape)


def matrix(build: Builder, node: Node, index: int, number: int) -> Value:
    """What a direction has of an operand [D, N, K], transposed to [K, N]."""
    value = node.operand(index)
    flat = build.op("Reshape", row(build, value, number), shape=value.shape[1:])
    return build.op("Transpose", flat, perm=(1, 0))


def _state(build: Builder, node: Node, index: int, number: int, shape: tuple[int, ...]) -> Value:
    value = part(build, node, index, number, shape)
    return value or build.constant(np.zeros(shape, node.operand(0).dtype.numpy), "state")


def row(build: Builder, value: Value, number: int) -> Value:
    """value[number : number + 1] along axis 0."""
    if value.shape[0] == 1:
        return value
    return span(build, value, 0, number, number + 1)


def span(build: Builder, value: Value, axis: int, start: int, end: int) -> Value:
    """value[start : end] along an axis."""
    starts = [0] * value.type.rank
    ends = list(value.shape)
    starts[axis], ends[axis] = start, end
    return build.op(
        "Slice",
        value,
        starts=tuple(starts),
        ends=tuple(ends),
        axes=tuple(range(value.type.rank)),
        steps=(1,) * value.type.rank,
    )
