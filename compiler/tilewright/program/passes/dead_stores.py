"""Removes instructions whose results nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.program.ir import CallKernel, Copy, Instruction, Program
from tilewright.program.liveness import Point, analyse, writes
from tilewright.program.rewrite import called_only, map_body, without_lifetimes


@dataclass(frozen=True)
class DeadStores:
    """A kernel call or a copy goes when all it writes is dead afterwards. Removing one may free others.

    Before:  kernel relu @in %x, @out %unused        After:  (nothing)
    """

    name = "dead-stores"

    def __call__(self, program: Program) -> Program:
        program = replace(program, body=without_lifetimes(program.body))
        while True:
            body = _live_body(program)
            if body == program.body:
                return called_only(program)
            program = replace(program, body=body)


def _live_body(program: Program) -> tuple[Instruction, ...]:
    liveness = analyse(program)
    verdicts = _verdicts(liveness.roots, liveness.bit)
    return map_body(program.body, lambda i: i if next(verdicts) else None)


def _verdicts(points: tuple[Point, ...], bit: dict[str, int]) -> Iterator[bool]:
    """Whether each instruction stays, in the order in which `map_body` asks: innermost first.

    `map_body` does not ask for a loop or a branch whose bodies became empty, so neither is it answered here.
    """
    for point in points:
        if point.bodies:
            inner = [list(_verdicts(body, bit)) for body in point.bodies]
            for answers in inner:
                yield from answers
            if any(True in answers for answers in inner):
                yield True
            continue
        yield _stays(point, bit)


def _stays(point: Point, bit: dict[str, int]) -> bool:
    if not isinstance(point.instruction, (Copy, CallKernel)):
        return True
    return any(bit[o.memory.name] & point.live_out for o in point.instruction.operands() if writes(o))
