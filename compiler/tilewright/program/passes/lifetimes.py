"""Places Alloc as late and Dealloc as early as possible."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.program.ir import Alloc, Branch, Dealloc, Instruction, Loop, Memory, Program, Space
from tilewright.program.liveness import Liveness, Point, analyse
from tilewright.program.rewrite import memories_of, without_lifetimes


@dataclass(frozen=True)
class Lifetimes:
    """Every arena buffer lives from just before its first to just after its last use, in the innermost body.

    What one turn of a loop hands to the next, and what is filled slice by slice, lives around the loop.

    Before:  kernel f @in %x, @out %y          After:  alloc %y
             kernel g @in %y, @out %z                  kernel f @in %x, @out %y
                                                       alloc %z
                                                       kernel g @in %y, @out %z
                                                       dealloc %y
    """

    name = "lifetimes"

    def __call__(self, program: Program) -> Program:
        program = replace(program, body=without_lifetimes(program.body))
        liveness = analyse(program)
        wanted = {n: m for n, m in liveness.memories.items() if m.space == Space.ACTIVATION}
        return replace(program, body=_place(liveness, liveness.roots, wanted))


def _place(liveness: Liveness, points: tuple[Point, ...], here: dict[str, Memory]) -> tuple[Instruction, ...]:
    """The body of `points` with the lifetimes of the buffers `here`, which nobody outside it uses."""
    uses = [memories_of(point.instruction) & here.keys() for point in points]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, names in enumerate(uses):
        for name in names:
            first.setdefault(name, position)
            last[name] = position
    result: list[Instruction] = []
    for position, point in enumerate(points):
        alone = {name for name in uses[position] if first[name] == last[name] == position}
        inner = {name: here[name] for name in alone if _fits_inside(liveness, point, name)}
        around = [name for name in here if name in uses[position] and name not in inner]
        result += [Alloc(here[name]) for name in around if first[name] == position]
        result.append(_with_inner(liveness, point, inner))
        result += [Dealloc(here[name]) for name in around if last[name] == position]
    return tuple(result)


def _fits_inside(liveness: Liveness, point: Point, name: str) -> bool:
    if isinstance(point.instruction, Loop):
        sliced = any(
            operand.index == point.instruction.var and operand.memory.name == name
            for inner in _instructions(point)
            for operand in inner.operands()
        )
        asked = any(operand.memory.name == name for operand in point.instruction.operands())
        return not sliced and not asked and not liveness.bit[name] & point.live_into_body
    if isinstance(point.instruction, Branch):
        arms = [any(name in memories_of(inner.instruction) for inner in body) for body in point.bodies]
        return arms.count(True) == 1 and point.instruction.condition.memory.name != name
    return False


def _instructions(point: Point) -> list[Instruction]:
    found = [point.instruction]
    for body in point.bodies:
        for inner in body:
            found += _instructions(inner)
    return found


def _with_inner(liveness: Liveness, point: Point, inner: dict[str, Memory]) -> Instruction:
    instruction = point.instruction
    if isinstance(instruction, Loop):
        return replace(instruction, body=_place(liveness, point.bodies[0], inner))
    if isinstance(instruction, Branch):
        then, orelse = (_place(liveness, body, _used_in(body, inner)) for body in point.bodies)
        return replace(instruction, then=then, orelse=orelse)
    return instruction


def _used_in(points: tuple[Point, ...], among: dict[str, Memory]) -> dict[str, Memory]:
    used = set().union(*(memories_of(point.instruction) for point in points))
    return {name: memory for name, memory in among.items() if name in used}
