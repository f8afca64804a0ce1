"""If, Loop and Scan: sub-graphs become functions, and what they read from outside becomes their captures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto

from tilewright.dtypes import BOOL, I64
from tilewright.frontend.operators.constants import extent_value
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Body, Site, small_constant
from tilewright.graph.ir import Function, Placeholder, Value
from tilewright.ops.control import with_bodies
from tilewright.ops.operator import Builder
from tilewright.types import Bounded, TensorType


@importer("If", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def if_(site: Site) -> Sequence[Value]:
    """A branch that is known to be taken is read as if its nodes stood here."""
    known = site.known_if_constant(0)
    graphs = [site.graph("then_branch"), site.graph("else_branch")]
    if known is not None:
        return site.reader.inlined(graphs[0 if _single(site, known, "condition") else 1])
    condition = _scalar(site, 0, BOOL, "condition")
    bodies = [site.body(graph) for graph in graphs]
    captures = _join_captures(bodies)
    functions = [body.function for body in bodies]
    if len({len(function.outputs) for function in functions}) > 1:
        raise site.fail("its branches have different numbers of results")
    cuts = _level(site, functions)
    results = with_bodies(site.builder, "If", [condition, *captures], {}, tuple(functions))
    return _with_cuts(site, results, len(results) - len(cuts), cuts)


def _join_captures(bodies: Sequence[Body]) -> list[Value]:
    """Give all bodies the same inputs: what any of them captures. Returns the captured values."""
    outer = list(dict.fromkeys(value for body in bodies for value in body.captures))
    for body in bodies:
        inputs: list[Placeholder] = []
        for value in outer:
            own = body.captures.get(value)
            if not isinstance(own, Placeholder):
                own = Placeholder(body.function.fresh(value.name), value.type)
            inputs.append(own)
        body.function.inputs = inputs
    return outer


@dataclass(frozen=True)
class _CutAxis:
    """A size that depends on which branch runs: result and axis."""

    result: int
    axis: int


def _level(site: Site, functions: Sequence[Function]) -> list[_CutAxis]:
    """Make the results of two branches equal in shape: filled up to the larger, the sizes behind them."""
    cuts: list[_CutAxis] = []
    for index, values in enumerate(zip(*(function.outputs for function in functions), strict=True)):
        types = [value.type for value in values]
        if types[0].dtype != types[1].dtype or types[0].rank != types[1].rank:
            raise site.fail(
                f"result {index} is {types[0]} in one branch and {types[1]} in the other; element types and "
                "ranks must agree"
            )
        pairs = list(zip(types[0].shape, types[1].shape, strict=True))
        axes = [a for a, (m, n) in enumerate(pairs) if isinstance(m, Bounded) or m != n]
        if not axes:
            continue
        cuts += [_CutAxis(index, axis) for axis in axes]
        bound = tuple(max(int(m), int(n)) for m, n in pairs)
        for function in functions:
            _fill(site, function, index, axes, bound)
    return cuts


def _fill(site: Site, function: Function, index: int, axes: Sequence[int], bound: tuple[int, ...]) -> None:
    """Result `index` in the shape `bound`; its sizes along the axes become further results."""
    inner = Site(
        site.op, site.name, site.since, {}, (), (), Builder(function, origin=(site.name,)), None, site.reader
    )
    value = function.outputs[index]
    sizes = [extent_value(inner, value.shape[axis]) for axis in axes]
    if value.type.is_bounded:
        value = inner.emit("Uncut", value, shape=tuple(map(int, value.shape)))
    missing = [n - m for m, n in zip(value.shape, bound, strict=True)]
    if any(missing):
        value = inner.emit("Pad", value, pads=(*(0 for _ in bound), *missing), mode="constant")
    function.outputs[index] = value
    for size in sizes:
        function.outputs.append(inner.emit("Identity", size))
        function.output_names.append(f"{site.name}.size{len(function.outputs)}")


def _with_cuts(site: Site, results: list[Value], first: int, cuts: Sequence[_CutAxis]) -> list[Value]:
    """The first results, cut along the axes whose sizes are the further ones."""
    found = results[:first]
    for cut, size in zip(cuts, results[first:], strict=True):
        found[cut.result] = site.cut(found[cut.result], cut.axis, size, site.new_size())
    return found


@importer("Loop", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def loop(site: Site) -> Sequence[Value]:
    """Without a condition operand the body's own condition is ignored, as ONNX says.

    Results of each turn are stacked to the largest number of turns, which must be known; when a condition
    may end the loop earlier, they are cut.
    """
    return _LoopReader(site, site.graph("body")).read()


class _LoopReader:
    """One Loop: what is known of its ends, its body, and the states that the body does not know of."""

    def __init__(self, site: Site, graph: GraphProto) -> None:
        self.site = site
        self.initial = [site.operand(index) for index in range(2, len(site.operands))]
        self.has_condition = site.has(1)
        types = [TensorType(I64, ()), TensorType(BOOL, ()), *(value.type for value in self.initial)]
        # while a turn runs its condition holds; without the operand the body may still look at it
        known = {1: np.array(True)} if self.has_condition else {}
        self.body = site.body(graph, types, known)
        self.function = self.body.function
        if len(self.function.outputs) < 1 + len(self.initial):
            raise site.fail(
                f"its body has {len(self.function.outputs)} results for a condition and "
                f"{len(self.initial)} carried values"
            )
        self.again, *self.results = self.function.outputs
        self.turns = self.site.known_if_constant(0) if site.has(0) else None
        self.ends = site.known_if_constant(1) if self.has_condition else np.array(True)

    def read(self) -> list[Value]:
        site, states = self.site, len(self.initial)
        self._check_states()
        trips, conditional = self._ends()
        stacks = self.results[states:]
        if trips == 0:
            return [*self.initial, *(_empty(site, value) for value in stacks)]
        if trips < 0 and stacks:
            raise site.fail(
                "what each turn gives is stacked, but nothing known limits the number of turns; make operand "
                "0, the trip count, an initializer"
            )
        limit = None if self.turns is not None or not site.has(0) else _scalar(site, 0, I64, "trip count")
        condition = None if self.ends is not None else _scalar(site, 1, BOOL, "condition")
        counted = bool(stacks) and (conditional or condition is not None)
        hidden = self._hidden_states(counted)
        attrs = {
            "num_states": len(hidden) + states,
            "max_trips": trips,
            "conditional": conditional,
        }
        self.function.output_names = []
        operands = [limit, condition, *(start for start, _ in hidden), *self.initial, *self.body.captures]
        again = [self._flag(self.again)] if conditional else []
        self.function.outputs = [*again, *(after for _, after in hidden), *self.results]
        results = with_bodies(site.builder, "Loop", operands, attrs, (self.function,))
        finals, stacked = results[len(hidden) :][:states], results[len(hidden) + states :]
        if counted:
            size = site.new_size()
            stacked = [site.cut(value, 0, results[0], size) for value in stacked]
        return [*finals, *stacked]

    def _check_states(self) -> None:
        for before, after in zip(self.initial, self.results, strict=False):
            if before.type != after.type:
                raise self.site.fail(
                    f"the carried value '{before.name}' of type {before.type} becomes {after.type} in the "
                    "body; a value whose type changes from turn to turn is not supported"
                )
        for value in self.results[len(self.initial) :]:
            if value.type.is_bounded:
                raise self.site.fail(f"a result of each turn is {value.type}, its size depends on data")

    def _ends(self) -> tuple[int, bool]:
        """The largest number of turns, -1 when it is not known, and whether the body's condition matters."""
        trips = -1 if self.turns is None else max(0, int(_single(self.site, self.turns, "trip count")))
        if self.ends is not None and not _single(self.site, self.ends, "condition"):
            return 0, False
        if not self.has_condition:
            return trips, False
        again = small_constant(self.again)
        if again is None:
            return trips, True
        if not _single(self.site, again, "condition"):
            return 1 if trips < 0 else min(trips, 1), False
        return trips, False

    def _hidden_states(self, counted: bool) -> list[tuple[Value, Value]]:
        """(initial value, value after a turn) of the turn's number and of the condition that a body sees.

        Moves their inputs in front of the states'; those that nobody reads are no states.
        """
        number, *others = self.function.inputs
        found: list[tuple[Value, Value]] = []
        kept: list[Placeholder] = []
        read = {value for node in self.function.nodes for value in node.inputs} | {self.again, *self.results}
        build = Builder(self.function, origin=(self.site.name,))
        if counted or number in read:
            one = build.constant(np.array(1, np.int64), "one")
            found.append((self.site.constant(np.array(0, np.int64)), build.op("Add", number, one)))
            kept.append(number)
        if not self.has_condition:
            seen, *others = others
            if seen in read:
                found.append((self.site.constant(np.array(True)), self._flag(self.again)))
                kept.append(seen)
        self.function.inputs = [*kept, *others]
        return found

    def _flag(self, value: Value) -> Value:
        if value.dtype != BOOL or value.type.size != 1:
            raise self.site.fail(f"the condition that its body gives is {value.type}, expected bool[]")
        build = Builder(self.function, origin=(self.site.name,))
        return value if value.shape == () else build.op("Reshape", value, shape=())


def _empty(site: Site, value: Value) -> Value:
    return site.constant(np.zeros((0, *value.shape), value.dtype.numpy))


def _single(site: Site, array: np.ndarray, what: str) -> bool | int:
    if array.size != 1:
        raise site.fail(f"the {what} has {array.size} elements, expected one")
    found: bool | int = array.reshape(-1)[0].item()
    return found


def _scalar(site: Site, index: int, dtype: object, what: str) -> Value:
    """A run-time operand of one element, of rank 0."""
    value = site.operand(index)
    if value.dtype != dtype or value.type.is_bounded or value.type.size != 1:
        raise site.fail(f"the {what} is {value.type}, expected {dtype}[]")
    return site.reshape(value, ())
