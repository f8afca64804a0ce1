"""The program: instructions on explicit memory, Glow's low-level IR (paper section 3.3).

A program declares constants, inputs, outputs and mutable state, then runs instructions on them and on buffers
it allocates. It is not SSA: a buffer may be written more than once. All memory decisions are taken here and
only here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.loops.ir import Role
from tilewright.program.callee import Callee
from tilewright.storage import PLAIN, Storage

UNBOUNDED = (1 << 63) - 1  # the trips of a loop that only memory ends


class Space(StrEnum):
    """Where a buffer lives: with the constants, with what the caller sees or keeps, or in the arena."""

    CONSTANT = "constant"
    MUTABLE = "mutable"
    ACTIVATION = "activation"


@dataclass(frozen=True)
class Memory:
    """A buffer. shape: extents in memory, row-major.

    logical and storage say which tensor it holds, for people and tools.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    space: Space = Space.ACTIVATION
    logical: tuple[int, ...] = ()
    storage: Storage = PLAIN

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes


@dataclass(frozen=True)
class Operand:
    """A use of a buffer: whole, or one slice of its leading axis; index names the variable of the loop."""

    memory: Memory
    mode: Role
    index: str = ""


class Instruction:
    """Base of all instructions."""

    __slots__ = ()

    def operands(self) -> tuple[Operand, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Alloc(Instruction):
    """The buffer's life in the arena begins; its contents are undefined."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class Dealloc(Instruction):
    """The buffer's life ends."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class Copy(Instruction):
    """Copies source (@in) to target (@out), both of one size in bytes."""

    target: Operand
    source: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.target, self.source)


@dataclass(frozen=True, slots=True)
class CallKernel(Instruction):
    """Runs a kernel; args follow its parameters. origin: the model's nodes, for traces and errors."""

    kernel: str
    args: tuple[Operand, ...]
    origin: tuple[str, ...] = ()

    def operands(self) -> tuple[Operand, ...]:
        return self.args


@dataclass(frozen=True, slots=True)
class Loop(Instruction):
    """Runs the body for var = 0 .. trips-1, or downwards when reverse.

    limit: an i64 scalar in memory, read once before the first turn; fewer than trips turns run when it is
    smaller. condition: a boolean scalar in memory; it is read before each turn, and ends the loop when false.
    """

    var: str
    trips: int
    body: tuple[Instruction, ...]
    reverse: bool = False
    limit: Operand | None = None
    condition: Operand | None = None

    def operands(self) -> tuple[Operand, ...]:
        return tuple(o for o in (self.limit, self.condition) if o is not None)

    @property
    def may_skip(self) -> bool:
        """Whether there may be no turn at all."""
        return self.trips <= 0 or bool(self.operands())


@dataclass(frozen=True, slots=True)
class Branch(Instruction):
    """Runs one of two bodies by a boolean scalar in memory."""

    condition: Operand
    then: tuple[Instruction, ...]
    orelse: tuple[Instruction, ...] = ()

    def operands(self) -> tuple[Operand, ...]:
        return (self.condition,)


@dataclass
class Program:
    """constants: with data in memory layout; inputs and outputs: in order, with the model's names."""

    name: str
    constants: dict[str, tuple[Memory, np.ndarray]] = field(default_factory=dict)
    inputs: list[tuple[str, Memory]] = field(default_factory=list)
    outputs: list[tuple[str, Memory]] = field(default_factory=list)
    body: tuple[Instruction, ...] = ()
    kernels: dict[str, Callee] = field(default_factory=dict)
    # for each kernel: template, schedule text and where the schedule came from, for `inspect`
    notes: dict[str, dict[str, str]] = field(default_factory=dict)
    # why nodes run as they do: a row for each node about which something was decided, for `inspect`
    reasons: list[dict[str, Any]] = field(default_factory=list)
    # outputs whose size along an axis is a count: (axis, name of the output that holds the count)
    counts: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)


def walk(body: tuple[Instruction, ...]) -> Iterator[Instruction]:
    """All instructions, those inside loops and branches included, in order."""
    for instruction in body:
        yield instruction
        if isinstance(instruction, Loop):
            yield from walk(instruction.body)
        elif isinstance(instruction, Branch):
            yield from walk(instruction.then)
            yield from walk(instruction.orelse)
