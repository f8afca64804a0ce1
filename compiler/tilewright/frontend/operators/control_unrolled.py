"""A Loop whose turns are written out, for bodies in which the number of the turn decides a shape."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto

from tilewright.dtypes import BOOL, I64
from tilewright.frontend.operators.control_scalars import scalar, single
from tilewright.frontend.site import Site, small_constant
from tilewright.graph.ir import Value

MAX_UNROLLED = 64  # turns


def unrolled(site: Site, graph: GraphProto, trips: int) -> list[Value]:
    """The results of a Loop of at most `trips` turns.

    Where a condition ends the loop at run time, the turns behind it are computed and thrown away: nothing
    but their results could be seen.
    """
    run = _Unrolled(site, [site.operand(index) for index in range(2, len(site.operands))])
    known = site.known_if_constant(1) if site.has(1) else np.array(True)
    if known is None:
        run.active = scalar(site, 1, BOOL, "condition")
    elif not single(site, known, "condition"):
        trips = 0
    if trips == 0 and len(site.outputs) > len(run.carried):
        raise site.fail("no turn runs, and without one the shapes of what its turns give are not known")
    for number in range(trips):
        if not run.turn(graph, number):
            break
    return run.results()


@dataclass
class _Unrolled:
    """active: whether the coming turn counts; None while it certainly does."""

    site: Site
    carried: list[Value]
    active: Value | None = None
    stacked: list[list[Value]] = field(default_factory=list)
    count: Value | None = None
    seen: Value | None = None  # the condition that the body sees, when the loop ignores it

    def turn(self, graph: GraphProto, number: int) -> bool:
        """Run one turn; tells whether there may be another."""
        site = self.site
        count, holds = site.constant(np.array(number, np.int64)), site.constant(np.array(True))
        given = [count, self.seen or holds, *self.carried]
        again, *values = site.reader.inlined(graph, given)
        new, gives = values[: len(self.carried)], values[len(self.carried) :]
        self._count(count)
        self.carried = [self._chosen(a, b) for a, b in zip(new, self.carried, strict=True)]
        self.stacked.append([site.reshape(value, (1, *value.shape)) for value in gives])
        if not site.has(1):
            self.seen = again
            return True
        known = small_constant(again)
        if known is not None:
            return bool(single(site, known, "condition"))
        flag = site.reshape(again, ())
        self.active = flag if self.active is None else site.emit("And", self.active, flag)
        return True

    def _count(self, number: Value) -> None:
        if self.active is not None:
            before = number if self.count is None else self.count
            self.count = self.site.emit("Add", before, self.site.emit("Cast", self.active, to=I64))

    def _chosen(self, new: Value, old: Value) -> Value:
        if self.active is None:
            return new
        if new.type != old.type:
            raise self.site.fail(
                f"a carried value of type {old.type} becomes {new.type}, while a condition that is known at "
                "run time only may end the loop"
            )
        return self.site.emit("Where", self.active, new, old)

    def results(self) -> list[Value]:
        """Final values of what is carried, then what each turn gave."""
        site = self.site
        columns = [list(column) for column in zip(*self.stacked, strict=True)]
        stacks = [c[0] if len(c) == 1 else site.emit("Concat", *c, axis=0) for c in columns]
        if self.count is not None:
            size = site.new_size()
            stacks = [site.cut(value, 0, self.count, size) for value in stacks]
        return [*self.carried, *stacks]
