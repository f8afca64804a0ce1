"""Which template schedules a group."""

from __future__ import annotations

from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.targets.cpu.schedules import (
    amx,
    contraction,
    depthwise,
    elementwise,
    stages,
    windowed,
    winograd,
)


def choose(group: Group, machine: Machine) -> Choice:
    """The first template that applies, most special first."""
    if winograd.applies(group):
        return winograd.schedule(group, machine)
    if amx.applies(group, machine):
        return amx.schedule(group, machine)
    if contraction.applies(group, machine):
        return contraction.schedule(group, machine)
    if depthwise.applies(group, machine):
        return depthwise.schedule(group, machine)
    if windowed.applies(group):
        return windowed.schedule(group, machine)
    if elementwise.applies(group):
        return elementwise.schedule(group, machine)
    return stages.schedule(group, machine)
