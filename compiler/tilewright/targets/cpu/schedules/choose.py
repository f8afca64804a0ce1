"""Which template schedules a group."""

from __future__ import annotations

from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.targets.cpu.schedules import contraction, elementwise, stages, windowed


def choose(group: Group, machine: Machine) -> Choice:
    """The first template that applies, most special first."""
    for template in (contraction, windowed, elementwise):
        if template.applies(group):
            return template.schedule(group, machine)
    return stages.schedule(group, machine)
