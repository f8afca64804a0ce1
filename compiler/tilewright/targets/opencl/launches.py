"""A program -> the list of launches that the device carries out, as JSON values.

One device buffer a region; a kernel's argument is (region, offset in elements). Loops whose trip counts are
known are written out; a branch, and a loop that memory ends, stay, and the host takes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from tilewright.errors import CodegenError
from tilewright.machine import Machine
from tilewright.program.ir import (
    Alloc,
    Branch,
    CallKernel,
    Copy,
    Dealloc,
    Instruction,
    Loop,
    Memory,
    Operand,
    walk,
)
from tilewright.program.plan import Plan
from tilewright.targets.opencl.codegen import Phase

_GROUP_ITEMS = 64
_GROUPS_PER_UNIT = 4

Launch = dict[str, Any]
Turns = Mapping[str, int]  # values of the loops' variables


def launches_of(
    body: Sequence[Instruction],
    plan: Plan,
    phases: Mapping[str, Sequence[Phase]],
    machine: Machine,
    turns: Turns | None = None,
) -> Iterator[Launch]:
    """Launches in order. phases: of each kernel by name. Raises CodegenError for an unknown instruction."""
    turns = turns or {}
    for instruction in body:
        if isinstance(instruction, (Alloc, Dealloc)):
            continue  # offsets are fixed
        if isinstance(instruction, CallKernel):
            yield from _call(instruction, plan, phases[instruction.kernel], machine, turns)
        elif isinstance(instruction, Copy):
            yield from _copy(instruction, plan, turns)
        elif isinstance(instruction, Loop) and instruction.operands():
            yield _loop(instruction, plan, phases, machine, turns)
        elif isinstance(instruction, Loop):
            numbers = range(instruction.trips)
            for turn in reversed(numbers) if instruction.reverse else numbers:
                yield from launches_of(
                    instruction.body, plan, phases, machine, {**turns, instruction.var: turn}
                )
        elif isinstance(instruction, Branch):
            yield {
                "kind": "branch",
                "label": f"branch {instruction.condition.memory.name}",
                "condition": _place(instruction.condition, plan, turns),
                "then": list(launches_of(instruction.then, plan, phases, machine, turns)),
                "orelse": list(launches_of(instruction.orelse, plan, phases, machine, turns)),
            }
        else:
            raise CodegenError(f"OpenCL has no rule for the instruction {type(instruction).__name__}")


def _loop(
    loop: Loop, plan: Plan, phases: Mapping[str, Sequence[Phase]], machine: Machine, turns: Turns
) -> Launch:
    """Turns differ where the body uses slices: then each is written out, else one stands for all."""
    sliced = any(o.index == loop.var for i in walk(loop.body) for o in i.operands())
    written = range(loop.trips) if sliced else range(min(loop.trips, 1))
    return {
        "kind": "loop",
        "label": f"loop {loop.var}",
        "trips": loop.trips,
        "limit": None if loop.limit is None else _place(loop.limit, plan, turns),
        "condition": None if loop.condition is None else _place(loop.condition, plan, turns),
        "turns": [
            list(launches_of(loop.body, plan, phases, machine, {**turns, loop.var: turn}))
            for turn in (reversed(written) if loop.reverse else written)
        ],
    }


def _call(
    call: CallKernel, plan: Plan, phases: Sequence[Phase], machine: Machine, turns: Turns
) -> Iterator[Launch]:
    for phase in phases:
        if 0 in phase.global_size:
            continue  # nothing to compute, and OpenCL refuses an empty range
        arguments = []
        for position in phase.params:
            operand = call.args[position]
            region, offset = _place(operand, plan, turns)
            size = operand.memory.dtype.bytes
            if offset % size:
                raise CodegenError(
                    f"buffer '{operand.memory.name}' lies at {offset}, not a multiple of {size}"
                )
            arguments.append([region, offset // size])
        if phase.reports:
            arguments.append(["fault", 0])
        yield {
            "kind": "kernel",
            "kernel": phase.name,
            "args": arguments,
            "global": list(phase.global_size),
            "local": list(phase.local_size or group_size(phase.global_size, machine)),
            "label": call.kernel,
        }


def group_size(global_size: tuple[int, ...], machine: Machine) -> tuple[int, ...]:
    """Work-items of a group in each dimension, divisors of the global size, the first dimension filled first.

    A group has at most 64 items, and fewer where that would leave compute units without groups; what drivers
    choose by themselves can be one group for everything.
    """
    wanted = prod(global_size) // (_GROUPS_PER_UNIT * machine.units.get("compute", 1))
    room = max(1, min(_GROUP_ITEMS, machine.limits.get("work_group", _GROUP_ITEMS), wanted))
    sizes = []
    for extent in global_size:
        sizes.append(max(n for n in range(1, room + 1) if extent % n == 0))
        room //= sizes[-1]
    return tuple(sizes)


def _copy(copy: Copy, plan: Plan, turns: Turns) -> Iterator[Launch]:
    size = _bytes(copy.source)
    source, target = _place(copy.source, plan, turns), _place(copy.target, plan, turns)
    if size and source != target:
        yield {
            "kind": "copy",
            "source": source,
            "target": target,
            "bytes": size,
            "label": f"copy {copy.target.memory.name}",
        }


def _place(operand: Operand, plan: Plan, turns: Turns) -> list[Any]:
    """[region, offset in bytes] of a use."""
    memory: Memory = operand.memory
    offset = plan.offsets[memory.name]
    if operand.index:
        offset += turns[operand.index] * _bytes(operand)
    return [str(memory.space), offset]


def _bytes(operand: Operand) -> int:
    """Size of what a use touches: the buffer, or one slice of its leading axis."""
    memory = operand.memory
    return memory.bytes // max(memory.shape[0], 1) if operand.index else memory.bytes
