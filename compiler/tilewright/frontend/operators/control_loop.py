"""Loop: its body becomes a function that is run again and again, its ends become scalars in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto

from tilewright.dtypes import BOOL, I64
from tilewright.errors import ImportModelError
from tilewright.frontend.operators.control_scalars import scalar, single
from tilewright.frontend.operators.control_unrolled import MAX_UNROLLED, unrolled
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site, small_constant
from tilewright.graph.ir import Placeholder, Value
from tilewright.ops.control import with_bodies
from tilewright.ops.operator import Builder
from tilewright.types import TensorType

_LARGEST = 1 << 40  # bytes: no machine has room for what more turns give


@importer("Loop", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def loop(site: Site) -> Sequence[Value]:
    """Without a condition operand the body's own condition is ignored, as ONNX says.

    Results of each turn are stacked to the largest number of turns, which must be known; when a condition
    may end the loop earlier, they are cut.
    """
    graph = site.graph("body")
    try:
        reader = _LoopReader(site, graph)
    except ImportModelError:  # some size in the body may change from turn to turn
        turns = site.known_if_constant(0) if site.has(0) else None
        if turns is None or not 0 < single(site, turns, "trip count") <= MAX_UNROLLED:
            raise
        return unrolled(site, graph, int(single(site, turns, "trip count")))
    return reader.read()


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
        self._check_states()
        self.turns = self.site.known_if_constant(0) if site.has(0) else None
        self.ends = site.known_if_constant(1) if self.has_condition else np.array(True)

    def read(self) -> list[Value]:
        """The Loop's results: final values of what is carried, then what was stacked."""
        site, states = self.site, len(self.initial)
        trips, conditional = self._ends()
        stacks = self.results[states:]
        if trips == 0:
            return [*self.initial, *(_empty(site, value) for value in stacks)]
        if trips < 0 and stacks:
            raise site.fail(
                "what each turn gives is stacked, but nothing known limits the number of turns; make operand "
                "0, the trip count, an initializer"
            )
        needed = trips * sum(value.type.bytes for value in stacks)
        if needed > _LARGEST:
            raise site.fail(
                f"what each turn gives is stacked, which needs {needed} bytes for the {trips} turns that "
                "operand 0, the trip count, allows; make it smaller"
            )
        limit = None if self.turns is not None or not site.has(0) else scalar(site, 0, I64, "trip count")
        condition = None if self.ends is not None else scalar(site, 1, BOOL, "condition")
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
        trips = -1 if self.turns is None else max(0, int(single(self.site, self.turns, "trip count")))
        if self.ends is not None and not single(self.site, self.ends, "condition"):
            return 0, False
        if not self.has_condition:
            return trips, False
        again = small_constant(self.again)
        if again is None:
            return trips, True
        if not single(self.site, again, "condition"):
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
