"""Lets the body of a loop use slices where they lie, instead of copying them in and out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from tilewright.program.ir import Branch, Copy, Instruction, Loop, Memory, Operand, Program, Space, walk
from tilewright.program.liveness import Liveness, Point, analyse, writes
from tilewright.program.rewrite import map_body, map_operands


@dataclass(frozen=True)
class SliceForwarding:
    """Replaces a buffer that only stands for one slice, for one turn of the loop, by the slice.

    1. A slice copied in, and neither side written in the loop otherwise.
       Before:  loop i 9 { copy @out %x, @in %xs[i]     After:  loop i 9 { kernel f @in %xs[i], ... }
                           kernel f @in %x, ... }
    2. A result copied out to a slice that the loop does not use otherwise.
       Before:  loop i 9 { kernel f ..., @out %y        After:  loop i 9 { kernel f ..., @out %ys[i] }
                           copy @out %ys[i], @in %y }
    """

    name = "slices"

    def __call__(self, program: Program) -> Program:
        while True:
            found = _first(program)
            if found is None:
                return program
            program = _forward(program, *found)


def _first(program: Program) -> tuple[Copy, Memory, Operand] | None:
    """A copy that can go, with the buffer to replace and the slice that takes its place."""
    liveness = analyse(program)
    uses = Counter(o.memory.name for i in walk(program.body) for o in i.operands())
    for point in liveness.points():
        if isinstance(point.instruction, Loop):
            for inner in point.bodies[0]:
                found = _candidate(liveness, uses, point, inner.instruction)
                if found is not None:
                    return found
    return None


def _candidate(
    liveness: Liveness, uses: Counter[str], loop: Point, instruction: Instruction
) -> tuple[Copy, Memory, Operand] | None:
    assert isinstance(loop.instruction, Loop)
    if not isinstance(instruction, Copy):
        return None
    target, source = instruction.target, instruction.source
    var, body = loop.instruction.var, loop.instruction.body
    if source.index == var and not target.index and _is_local(liveness, uses, loop, target.memory):
        written = [o for i in walk(body) for o in i.operands() if writes(o)]
        names = Counter(o.memory.name for o in written)
        if names[target.memory.name] == 1 and names[source.memory.name] == 0:
            return instruction, target.memory, source
    if target.index == var and not source.index and _is_local(liveness, uses, loop, source.memory):
        names = Counter(o.memory.name for i in walk(body) for o in i.operands())
        if names[target.memory.name] == 1:
            return instruction, source.memory, target
    return None


def _is_local(liveness: Liveness, uses: Counter[str], loop: Point, memory: Memory) -> bool:
    """Whether the buffer lives in one turn only, and is always used whole."""
    assert isinstance(loop.instruction, Loop)
    operands = [o for i in walk(loop.instruction.body) for o in i.operands() if o.memory.name == memory.name]
    if memory.space != Space.ACTIVATION or len(operands) != uses[memory.name]:
        return False
    control = [i for i in walk(loop.instruction.body) if isinstance(i, (Branch, Loop))]
    asked = {o.memory.name for instruction in (loop.instruction, *control) for o in instruction.operands()}
    if memory.name in asked or any(operand.index for operand in operands):
        return False
    return not liveness.bit[memory.name] & (loop.live_into_body | loop.live_out)


def _forward(program: Program, copy: Copy, old: Memory, new: Operand) -> Program:
    def replaced(operand: Operand) -> Operand:
        if operand.memory.name != old.name:
            return operand
        return replace(operand, memory=new.memory, index=new.index)

    kept = map_body(program.body, lambda i: None if i is copy else i)
    return replace(program, body=map_operands(kept, replaced))
