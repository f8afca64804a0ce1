"""Template of last resort: every stage that cannot be inlined is computed whole, in plain loops, before its
readers.

Right for any expression; row-wise chains (softmax, normalisations) come here.
"""

from __future__ import annotations

from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.schedules.common import axis, inline_elementwise


def schedule(group: Group, machine: Machine) -> Choice:
    """Vectors along the last axis of stages that do not reduce."""
    s = Schedule(group.outputs)
    inline_elementwise(s, keep=set())
    for name, state in s.state.stages.items():
        if state.attach.how != "root" or not state.stage.axes:
            continue
        last = len(state.stage.axes) - 1
        if state.stage.axes[last].extent > 1 and not state.stage.reduce_axes:
            _, lane = s.split(name, axis(name, last), machine.lanes(32))
            s.vectorize(name, lane)
    return Choice("stages", s)
