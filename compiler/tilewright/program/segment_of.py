"""From a planned program and its code to a segment: the part that is the same for all targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.program.ir import Memory, Program
from tilewright.program.plan import Plan
from tilewright.program.planner import ALIGNMENT
from tilewright.segment import Port, Segment


def segment_of(
    program: Program,
    plan: Plan,
    target: str,
    code: bytes,
    info: Mapping[str, Any],
    features: Sequence[str] = (),
) -> Segment:
    """A segment with the program's constants and ports at the plan's offsets; the rest as in `Segment`."""
    return Segment(
        target=target,
        code=code,
        constants=_constants(program, plan),
        inputs=tuple(_port(name, memory, plan) for name, memory in program.inputs),
        outputs=tuple(
            replace(_port(name, memory, plan), counts=program.counts.get(name, ()))
            for name, memory in program.outputs
        ),
        mutable_bytes=plan.mutable_bytes,
        arena_bytes=plan.arena_bytes,
        features=tuple(features),
        info=dict(info),
    )


def _constants(program: Program, plan: Plan) -> np.ndarray:
    """All constants in one block of bytes, aligned as planned, so that a device needs no copy of it."""
    room = np.zeros(plan.constant_bytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    block = room[start : start + plan.constant_bytes]
    for name, (memory, data) in program.constants.items():
        offset = plan.offsets[name]
        block[offset : offset + memory.bytes] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return block


def _port(name: str, memory: Memory, plan: Plan) -> Port:
    return Port(name, str(memory.dtype), tuple(memory.logical), plan.offsets[memory.name])
