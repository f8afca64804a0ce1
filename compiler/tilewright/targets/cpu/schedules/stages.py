"""Template of last resort: every stage that cannot be inlined is computed whole, in plain loops, before its
readers.

Right for any expression; row-wise chains (softmax, normalisations) come here. For the largest or smallest of
all elements, as quantisation needs it, that of each column comes first, in vectors:

for rows: partial[columns] = max(partial, x)
for columns: result = max(result, partial)
"""

from __future__ import annotations

from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.schedules.common import (
    TERMS,
    axis,
    block_sums,
    inline_elementwise,
    reduce_axes,
)
from tilewright.tensor.ir import Axis, Reduce, Stage

EXTREMA = ("max", "min")
FEWEST = 4  # columns that make a vector


def schedule(group: Group, machine: Machine) -> Choice:
    """Vectors along the last axis of stages that do not reduce; long sums in blocks."""
    s = Schedule(group.outputs)
    inline_elementwise(s, keep=set())
    for name, state in list(s.state.stages.items()):
        columns = _columns(state.stage)
        if columns is not None:
            _by_columns(s, name, *columns, machine)
        if columns is not None or state.attach.how != "root" or not state.stage.axes:
            continue
        if state.stage.reduce_axes:
            partial = block_sums(s, name, TERMS)
            if partial != name:
                s.compute_at(partial, name, reduce_axes(s, name)[-1])
            continue
        last = len(state.stage.axes) - 1
        if state.stage.axes[last].extent > 1:
            _, lane = s.split(name, axis(name, last), machine.lanes(32))
            s.vectorize(name, lane)
    return Choice("stages", s)


def _columns(stage: Stage) -> tuple[Axis, Axis] | None:
    """The last reduce axis of an extremum of all elements, and the longest other one; None where columns are
    no way to it.
    """
    body, found = stage.bodies[0], stage.reduce_axes
    one = all(a.extent == 1 for a in stage.axes)
    if not one or not isinstance(body, Reduce) or len(stage.bodies) > 1 or body.reducer.name not in EXTREMA:
        return None
    if len(found) < 2 or found[-1].extent < FEWEST:
        return None
    rows = max(found[:-1], key=lambda a: a.extent)
    return (found[-1], rows) if rows.extent > 1 else None


def _by_columns(s: Schedule, name: str, columns: Axis, rows: Axis, machine: Machine) -> None:
    partial = s.rfactor(name, [columns.name], rows.name, rows.extent)
    column, *others = [a.name for a in s.state.stage(partial).stage.axes]
    vector, lane = s.split(partial, column, min(columns.extent, machine.lanes(32)))
    s.reorder(partial, *others, *reduce_axes(s, partial), vector, lane)
    s.vectorize(partial, lane)
