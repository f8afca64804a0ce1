"""Which buffers hold a value that somebody still reads, after every instruction.

Loops are solved to a fixed point; a buffer is live only where some write may have reached it, so a slice-wise
filled buffer does not live back to the start of the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.loops.ir import Role
from tilewright.program.ir import Branch, Instruction, Loop, Memory, Operand, Program, Space
from tilewright.program.rewrite import Body, all_memories, bodies_of

_READS = (Role.IN, Role.INOUT)


def reads(operand: Operand) -> bool:
    return operand.mode in _READS


def writes(operand: Operand) -> bool:
    return operand.mode != Role.IN


@dataclass(eq=False)
class Point:
    """An instruction with its results. Sets of buffers are bit masks over `Liveness.names`."""

    instruction: Instruction
    bodies: tuple[tuple[Point, ...], ...]
    live_out: int = 0
    defined_out: int = 0
    live_into_body: int = 0  # for a loop: what a turn takes over from the one before, or from outside


@dataclass(eq=False)
class Liveness:
    """names: of all buffers, bit by bit; roots: the points of the program's body."""

    names: list[str]
    memories: dict[str, Memory]
    roots: tuple[Point, ...]
    bit: dict[str, int] = field(default_factory=dict)

    def mask(self, names: set[str]) -> int:
        return sum(self.bit[name] for name in names)

    def points(self) -> list[Point]:
        """All points in program order, loops and branches before their bodies."""
        found: list[Point] = []
        _collect(self.roots, found)
        return found


def analyse(program: Program) -> Liveness:
    """Liveness of a program; Alloc and Dealloc are ignored.

    Constants, inputs, outputs and state are live at the end of the program: their contents outlast it.
    """
    memories = all_memories(program)
    names = list(memories)
    bit = {name: 1 << index for index, name in enumerate(names)}
    result = Liveness(names, memories, _points(program.body), bit)
    outputs = {memory.name for _, memory in program.outputs}
    outlasting = {name for name, memory in memories.items() if memory.space != Space.ACTIVATION}
    _forward(result, result.roots, result.mask(outlasting - outputs))
    _backward(result, result.roots, result.mask(outlasting))
    for point in result.points():
        point.live_out &= point.defined_out
        point.live_into_body &= point.defined_out
    return result


def _points(body: Body) -> tuple[Point, ...]:
    return tuple(Point(i, tuple(_points(inner) for inner in bodies_of(i))) for i in body)


def _collect(points: tuple[Point, ...], found: list[Point]) -> None:
    for point in points:
        found.append(point)
        for body in point.bodies:
            _collect(body, found)


def _forward(liveness: Liveness, points: tuple[Point, ...], defined: int) -> int:
    for point in points:
        if point.bodies:
            inner = liveness.mask(_written_inside(point)) if isinstance(point.instruction, Loop) else 0
            outs = [_forward(liveness, body, defined | inner) for body in point.bodies]
            for out in outs:
                defined |= out
        else:
            defined |= liveness.mask(_written(point.instruction))
        point.defined_out = defined
    return defined


def _written(instruction: Instruction) -> set[str]:
    return {operand.memory.name for operand in instruction.operands() if writes(operand)}


def _written_inside(point: Point) -> set[str]:
    found = _written(point.instruction)
    for body in point.bodies:
        for inner in body:
            found |= _written_inside(inner)
    return found


def _backward(liveness: Liveness, points: tuple[Point, ...], live: int) -> int:
    for point in reversed(points):
        point.live_out = live
        if isinstance(point.instruction, Loop):
            live = _backward_loop(liveness, point, live)
            continue
        if isinstance(point.instruction, Branch):
            arms = [_backward(liveness, body, live) for body in point.bodies]
            live = arms[0] | arms[1]
        operands = point.instruction.operands()
        killed = {o.memory.name for o in operands if o.mode in (Role.OUT, Role.SCRATCH) and not o.index}
        used = {o.memory.name for o in operands if reads(o)}
        live = (live & ~liveness.mask(killed)) | liveness.mask(used)
    return live


def _backward_loop(liveness: Liveness, point: Point, after: int) -> int:
    loop = point.instruction
    assert isinstance(loop, Loop)
    asked = 0 if loop.condition is None else liveness.bit[loop.condition.memory.name]
    before = 0
    while True:
        found = _backward(liveness, point.bodies[0], after | before | asked)
        if found == before:
            break
        before = found
    point.live_into_body = before | asked
    live = before | liveness.mask({operand.memory.name for operand in loop.operands()})
    return live | after if loop.may_skip else live
