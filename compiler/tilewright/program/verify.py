"""What must hold of every program, checked between passes."""

from __future__ import annotations

from tilewright.dtypes import BOOL, I64
from tilewright.errors import VerifyError
from tilewright.loops.ir import Role
from tilewright.program.ir import (
    Alloc,
    CallKernel,
    Copy,
    Dealloc,
    Instruction,
    Loop,
    Memory,
    Operand,
    Program,
    Space,
    walk,
)
from tilewright.program.liveness import writes
from tilewright.program.rewrite import all_memories, bodies_of, operand_bytes


def verify_program(program: Program) -> None:
    """Raises VerifyError with the first rule that is broken.

    Names are unique; constants have data of their shape; constants and inputs are never written; kernels
    exist and get operands of the roles and sizes of their parameters; slices name an enclosing loop that
    stays inside the buffer; copies are between equal sizes; with lifetimes placed, buffers are used only
    while they are alive.
    """
    memories = all_memories(program)
    _check_declarations(program)
    read_only = {m.name for _, m in program.inputs} | set(program.constants)
    for instruction in walk(program.body):
        for operand in instruction.operands():
            if memories[operand.memory.name] != operand.memory:
                raise VerifyError(f"program '{program.name}': two buffers are called '{operand.memory.name}'")
            if writes(operand) and operand.memory.name in read_only:
                raise VerifyError(
                    f"{_where(program, instruction)} writes '{operand.memory.name}', which is read-only"
                )
    _check_body(program, program.body, {})
    if any(isinstance(instruction, Alloc) for instruction in walk(program.body)):
        _check_lifetimes(program, program.body, set())


def _where(program: Program, instruction: Instruction) -> str:
    if isinstance(instruction, CallKernel):
        return f"program '{program.name}': the call of kernel '{instruction.kernel}'"
    return f"program '{program.name}': a {type(instruction).__name__.lower()}"


def _check_declarations(program: Program) -> None:
    for name, (memory, data) in program.constants.items():
        if memory.name != name or memory.space != Space.CONSTANT:
            raise VerifyError(f"program '{program.name}': constant '{name}' is declared as {memory}")
        if data.shape != memory.shape or data.dtype != memory.dtype.numpy:
            raise VerifyError(
                f"program '{program.name}': constant '{name}' is {memory.dtype}{list(memory.shape)}, "
                f"its data {data.dtype}{list(data.shape)}"
            )
    for _, memory in (*program.inputs, *program.outputs):
        if memory.space != Space.MUTABLE:
            raise VerifyError(
                f"program '{program.name}': '{memory.name}' is an input or output in space {memory.space}"
            )


def _check_body(program: Program, body: tuple[Instruction, ...], trips: dict[str, int]) -> None:
    for instruction in body:
        for operand in instruction.operands():
            _check_slice(program, instruction, operand, trips)
        if isinstance(instruction, Copy):
            _check_copy(program, instruction)
        elif isinstance(instruction, CallKernel):
            _check_call(program, instruction)
        elif isinstance(instruction, Loop):
            _check_loop(program, instruction)
        inner = trips | {instruction.var: instruction.trips} if isinstance(instruction, Loop) else trips
        for part in bodies_of(instruction):
            _check_body(program, part, inner)


def _check_slice(program: Program, instruction: Instruction, operand: Operand, trips: dict[str, int]) -> None:
    if not operand.index:
        return
    if operand.index not in trips:
        raise VerifyError(
            f"{_where(program, instruction)} uses '{operand.memory.name}[{operand.index}]', "
            f"but no loop around it counts '{operand.index}'"
        )
    shape = operand.memory.shape
    if not shape or shape[0] < trips[operand.index]:
        raise VerifyError(
            f"{_where(program, instruction)} uses '{operand.memory.name}[{operand.index}]', "
            f"whose shape {list(shape)} is shorter than the loop's {trips[operand.index]} turns"
        )


def _check_copy(program: Program, copy: Copy) -> None:
    target, source = operand_bytes(copy.target), operand_bytes(copy.source)
    if target != source:
        raise VerifyError(
            f"{_where(program, copy)} from '{copy.source.memory.name}' ({source} bytes) to "
            f"'{copy.target.memory.name}' ({target} bytes): sizes differ"
        )
    if copy.target.mode != Role.OUT or copy.source.mode != Role.IN:
        raise VerifyError(f"{_where(program, copy)} needs an @out target and an @in source")


def _check_call(program: Program, call: CallKernel) -> None:
    kernel = program.kernels.get(call.kernel)
    where = _where(program, call)
    if kernel is None:
        raise VerifyError(f"{where}: there is no such kernel")
    if len(call.args) != len(kernel.params):
        raise VerifyError(
            f"{where} has {len(call.args)} operands, the kernel {len(kernel.params)} parameters"
        )
    for operand, param, role in zip(call.args, kernel.params, kernel.roles, strict=True):
        if operand.mode != role:
            raise VerifyError(
                f"{where} passes '{operand.memory.name}' @{operand.mode} for @{role} {param.name}"
            )
        if operand_bytes(operand) != param.bytes:
            raise VerifyError(
                f"{where} passes '{operand.memory.name}' of {operand_bytes(operand)} bytes "
                f"for {param.name}, which has {param.bytes}"
            )


def _check_loop(program: Program, loop: Loop) -> None:
    for operand, dtype, role in ((loop.limit, I64, "limit"), (loop.condition, BOOL, "condition")):
        if operand is None:
            continue
        memory = operand.memory
        if memory.dtype != dtype or operand_bytes(operand) != dtype.bytes or operand.mode != Role.IN:
            found = f"'{memory.name}' of type {memory.dtype}{list(memory.shape)}"
            raise VerifyError(f"{_where(program, loop)} has {found} as its {role}, expected one @in {dtype}")


def _check_lifetimes(program: Program, body: tuple[Instruction, ...], alive: set[str]) -> None:
    mine: set[str] = set()
    for instruction in body:
        if isinstance(instruction, Alloc):
            _expect(
                instruction.memory.name not in alive | mine, program, instruction.memory, "allocated twice"
            )
            _expect(
                instruction.memory.space == Space.ACTIVATION,
                program,
                instruction.memory,
                "not an arena buffer",
            )
            mine.add(instruction.memory.name)
        elif isinstance(instruction, Dealloc):
            _expect(instruction.memory.name in mine, program, instruction.memory, "deallocated elsewhere")
            mine.remove(instruction.memory.name)
        for operand in instruction.operands():
            dead = operand.memory.space == Space.ACTIVATION and operand.memory.name not in alive | mine
            _expect(not dead, program, operand.memory, "used while it is not alive")
        for part in bodies_of(instruction):
            _check_lifetimes(program, part, alive | mine)
    if mine:
        raise VerifyError(
            f"program '{program.name}': buffers {', '.join(sorted(mine))} are never deallocated"
        )


def _expect(holds: bool, program: Program, memory: Memory, complaint: str) -> None:
    if not holds:
        raise VerifyError(f"program '{program.name}': buffer '{memory.name}' is {complaint}")
