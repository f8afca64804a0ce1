"""Removes copies by letting both sides be one buffer."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.program.interference import Merging
from tilewright.program.ir import Copy, Program, walk


@dataclass(frozen=True)
class CopyElimination:
    """Source and target of a copy become one buffer, unless one is written while the other is still needed.

    1. A copy into an output: the producer writes the output itself.
       Before:  kernel relu @in %x, @out %y          After:  kernel relu @in %x, @out %prob
                copy @out %prob, @in %y
    2. A copy of something that does not change: readers read the source.
       Before:  copy @out %t, @in %weights           After:  kernel f @in %weights, ...
                kernel f @in %t, ...
    3. The state of a loop: the turn writes the state itself where the kernel works in place.
       Before:  loop i 9 { kernel step @in %h, @out %n    After:  loop i 9 { kernel step @in %h, @out %h }
                           copy @out %h, @in %n }
    """

    name = "copies"

    def __call__(self, program: Program) -> Program:
        merging = Merging(program)
        for instruction in walk(program.body):
            if not isinstance(instruction, Copy) or instruction.target.index or instruction.source.index:
                continue
            merging.try_merge(instruction.target.memory, instruction.source.memory)
        return merging.apply()
