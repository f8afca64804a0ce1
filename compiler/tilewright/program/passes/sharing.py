"""Lets kernels work in place."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.program.interference import Merging, inplace_pairs
from tilewright.program.ir import CallKernel, Program, walk


@dataclass(frozen=True)
class BufferSharing:
    """An output takes the memory of an input that dies there, where the kernel declares the pair `inplace`.

    Before:  kernel relu @in %x, @out %y       After:  kernel relu @in %x, @out %x
             kernel f @in %y, ...                      kernel f @in %x, ...
    """

    name = "sharing"

    def __call__(self, program: Program) -> Program:
        merging = Merging(program)
        for instruction in walk(program.body):
            if not isinstance(instruction, CallKernel):
                continue
            for out, source in inplace_pairs(program.kernels[instruction.kernel], instruction.args):
                if not (out.index or source.index):
                    merging.try_merge(out.memory, source.memory)
        return merging.apply()
