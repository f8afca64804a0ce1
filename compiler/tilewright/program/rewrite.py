"""Looking at and rebuilding instruction lists: what the passes of this folder share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
    Program,
    walk,
)

Body = tuple[Instruction, ...]


def map_body(body: Body, rule: Callable[[Instruction], Instruction | None]) -> Body:
    """The body with `rule` applied to every instruction, innermost first; None removes it.

    A loop or a branch whose bodies became empty is removed too: without instructions it has no effect.
    """
    result = []
    for instruction in body:
        inner = _with_bodies(instruction, lambda part: map_body(part, rule))
        mapped = None if inner is None else rule(inner)
        if mapped is not None:
            result.append(mapped)
    return tuple(result)


def _with_bodies(instruction: Instruction, rule: Callable[[Body], Body]) -> Instruction | None:
    if isinstance(instruction, Loop):
        body = rule(instruction.body)
        return replace(instruction, body=body) if body else None
    if isinstance(instruction, Branch):
        then, orelse = rule(instruction.then), rule(instruction.orelse)
        return replace(instruction, then=then, orelse=orelse) if then or orelse else None
    return instruction


def map_operands(body: Body, rule: Callable[[Operand], Operand]) -> Body:
    """The body with `rule` applied to every operand of every instruction."""

    def apply(instruction: Instruction) -> Instruction:
        if isinstance(instruction, Copy):
            return Copy(rule(instruction.target), rule(instruction.source))
        if isinstance(instruction, CallKernel):
            return replace(instruction, args=tuple(rule(arg) for arg in instruction.args))
        if isinstance(instruction, Branch):
            return replace(instruction, condition=rule(instruction.condition))
        if isinstance(instruction, Loop):
            limit = None if instruction.limit is None else rule(instruction.limit)
            condition = None if instruction.condition is None else rule(instruction.condition)
            return replace(instruction, limit=limit, condition=condition)
        return instruction

    return map_body(body, apply)


def without_lifetimes(body: Body) -> Body:
    """The body without Alloc and Dealloc; passes that move uses run before lifetimes are placed."""
    return map_body(body, lambda i: None if isinstance(i, (Alloc, Dealloc)) else i)


def bodies_of(instruction: Instruction) -> tuple[Body, ...]:
    """The instruction lists inside an instruction."""
    if isinstance(instruction, Loop):
        return (instruction.body,)
    if isinstance(instruction, Branch):
        return (instruction.then, instruction.orelse)
    return ()


def memories_of(instruction: Instruction) -> set[str]:
    """Names of all buffers that the instruction, or one inside it, uses; Alloc and Dealloc are not uses."""
    return {operand.memory.name for inner in walk((instruction,)) for operand in inner.operands()}


def all_memories(program: Program) -> dict[str, Memory]:
    """Every buffer of the program by name: declared ones first, then those of the body in order of use."""
    found = {name: memory for name, (memory, _) in program.constants.items()}
    for _, memory in (*program.inputs, *program.outputs):
        found.setdefault(memory.name, memory)
    for instruction in walk(program.body):
        if isinstance(instruction, (Alloc, Dealloc)):
            found.setdefault(instruction.memory.name, instruction.memory)
        for operand in instruction.operands():
            found.setdefault(operand.memory.name, operand.memory)
    return found


def operand_bytes(operand: Operand) -> int:
    """Bytes that an operand covers: the whole buffer, or one slice of its leading axis."""
    return operand.memory.bytes // operand.memory.shape[0] if operand.index else operand.memory.bytes


def called_only(program: Program) -> Program:
    """The program without kernels that no instruction calls."""
    called = {i.kernel for i in walk(program.body) if isinstance(i, CallKernel)}
    return replace(
        program,
        kernels={name: kernel for name, kernel in program.kernels.items() if name in called},
        notes={name: note for name, note in program.notes.items() if name in called},
        reasons=[row for row in program.reasons if row["kernel"] in called],
    )
