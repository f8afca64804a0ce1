"""Which buffers may not become one, and merging of those that may: register coalescing, on buffers.

Two buffers interfere when one is written while the other is still needed. A copy does not make its two sides
interfere (they hold the same bytes), nor does a kernel for a pair of parameters that it declares `inplace`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.program.callee import Callee
from tilewright.program.ir import CallKernel, Copy, Instruction, Memory, Operand, Program, Space
from tilewright.program.liveness import Liveness, Point, analyse, writes
from tilewright.program.rewrite import map_body, map_operands, operand_bytes


class Merging:
    """Classes of buffers that share memory, each with everything its members interfere with."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._liveness = analyse(program)
        self._indexed = {
            operand.memory.name
            for point in self._liveness.points()
            for operand in point.instruction.operands()
            if operand.index
        }
        bit = self._liveness.bit
        self._inputs = self._liveness.mask({memory.name for _, memory in program.inputs})
        self._members: dict[str, int] = dict(bit)
        self._conflicts: dict[str, int] = dict.fromkeys(bit, 0)
        self._leader = {name: name for name in bit}
        for point in self._liveness.points():
            for name, others in _conflicts_at(program, self._liveness, point):
                self._add(name, others)

    def _add(self, name: str, others: int) -> None:
        others &= ~self._liveness.bit[name]
        self._conflicts[name] |= others
        for index, other in enumerate(self._liveness.names):
            if others >> index & 1:
                self._conflicts[other] |= self._liveness.bit[name]

    def leader(self, name: str) -> str:
        """The buffer that stands for the class of `name`."""
        while self._leader[name] != name:
            name = self._leader[name]
        return name

    def try_merge(self, a: Memory, b: Memory) -> bool:
        """Let two buffers share memory if nothing forbids it. False when they must not, or already do."""
        first, second = self.leader(a.name), self.leader(b.name)
        if first == second or not self._fit(first, second):
            return False
        memories = self._liveness.memories
        if memories[second].space != Space.ACTIVATION:
            first, second = second, first
        self._leader[second] = first
        self._members[first] |= self._members[second]
        self._conflicts[first] |= self._conflicts[second]
        if second in self._indexed:
            self._indexed.add(first)
        return True

    def _fit(self, first: str, second: str) -> bool:
        a, b = self._liveness.memories[first], self._liveness.memories[second]
        if a.bytes != b.bytes or self._conflicts[first] & self._members[second]:
            return False
        if Space.ACTIVATION not in (a.space, b.space):
            return False
        if self._inputs & (self._members[first] | self._members[second]):
            return False  # the caller's arrays are only read
        indexed = first in self._indexed or second in self._indexed
        return not indexed or a.shape[:1] == b.shape[:1]

    def apply(self) -> Program:
        """The program over the leaders; copies within a class are gone."""

        def led(operand: Operand) -> Operand:
            name = self.leader(operand.memory.name)
            return operand if name == operand.memory.name else replace(operand, memory=memories[name])

        memories = self._liveness.memories
        body = map_operands(self._program.body, led)
        return replace(self._program, body=map_body(body, lambda i: None if _is_idle(i) else i))


def _is_idle(instruction: Instruction) -> bool:
    if not isinstance(instruction, Copy):
        return False
    target, source = instruction.target, instruction.source
    return target.memory.name == source.memory.name and target.index == source.index


def inplace_pairs(kernel: Callee, args: tuple[Operand, ...]) -> Iterator[tuple[Operand, Operand]]:
    """(output, input) operands of a call that may be the same memory, as the kernel declares."""
    for out, source in kernel.inplace:
        same = kernel.params[out].dtype.bits == kernel.params[source].dtype.bits
        if same and operand_bytes(args[out]) == operand_bytes(args[source]):
            yield args[out], args[source]


def _conflicts_at(program: Program, liveness: Liveness, point: Point) -> Iterator[tuple[str, int]]:
    instruction = point.instruction
    if isinstance(instruction, Copy):
        target, source = instruction.target, instruction.source
        same = liveness.bit[source.memory.name] if not (target.index or source.index) else 0
        yield target.memory.name, point.live_out & ~same
    if isinstance(instruction, CallKernel):
        kernel = program.kernels[instruction.kernel]
        pairs = {
            (id(out), id(source))
            for out, source in inplace_pairs(kernel, instruction.args)
            if not (out.index or source.index)
        }
        for written in instruction.args:
            if not writes(written):
                continue
            others = [o for o in instruction.args if o is not written and (id(written), id(o)) not in pairs]
            names = {operand.memory.name for operand in others}
            yield written.memory.name, point.live_out | liveness.mask(names)
