"""Template of last resort: every stage that cannot be inlined is computed whole, in plain loops, before its
readers.

Right for any expression; row-wise chains (softmax, normalisations) come here.
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


def schedule(group: Group, machine: Machine) -> Choice:
    """Vectors along the last axis of stages that do not reduce; long sums in blocks."""
    s = Schedule(group.outputs)
    inline_elementwise(s, keep=set())
    for name, state in list(s.state.stages.items()):
        if state.attach.how != "root" or not state.stage.axes:
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
