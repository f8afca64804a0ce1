"""Template for groups without a reduction: element-wise chains, transposes, packs, concatenations.

for axes in the order in which the result lies in memory (parallel outermost):
  vectors along the contiguous axis: result = body
"""

from __future__ import annotations

from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.schedules.common import (
    PARALLEL_WORK,
    axis,
    inline_elementwise,
    memory_order,
    parallel_axis,
    work,
)
from tilewright.tensor.ir import stages_of

MAX_VECTORS = 4


def applies(group: Group) -> bool:
    """No stage reduces."""
    return not any(stage.reduce_axes for stage in stages_of(group.outputs))


def schedule(group: Group, machine: Machine) -> Choice:
    """Every output is a loop nest of its own over the inlined producers."""
    s = Schedule(group.outputs)
    inline_elementwise(s, keep=set())
    shape = group.outputs[0].shape
    order = memory_order(group)
    for name in s.state.stages:
        if s.state.stages[name].attach.how == "root":
            _nest(s, name, shape, order, machine, work(group))
    return Choice("elementwise", s)


def _nest(
    s: Schedule, result: str, shape: tuple[int, ...], order: list[int], machine: Machine, size: int
) -> None:
    if not order:
        return
    bits = max(8, s.state.stage(result).stage.dtypes[0].bits)
    lanes = machine.lanes(max(32, bits))
    contiguous = axis(result, order[-1])
    extents = {axis(result, p): shape[p] for p in order[:-1]}
    outer = list(extents)
    if shape[order[-1]] > 1:
        vectors = max(1, min(MAX_VECTORS, shape[order[-1]] // lanes))
        block, within = s.split(result, contiguous, lanes * vectors)
        vector, lane = s.split(result, within, lanes)
        extents[block] = -(-shape[order[-1]] // (lanes * vectors))
        s.reorder(result, *outer, block, vector, lane)
        s.unroll(result, vector)
        s.vectorize(result, lane)
        outer.append(block)
    elif outer:
        s.reorder(result, *outer)
    shared = parallel_axis(extents, outer)
    if shared is not None and size >= PARALLEL_WORK:
        s.parallel(result, shared)
