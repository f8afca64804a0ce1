"""Programs as text; `parse.py` reads it back.

    program "resnet18"
    declare {
      constant %conv1.weight f32[4,3,7,7,16] logical [64,3,7,7] storage Abcd16a sha256 4f6d...
      input "data" %data f32[1,3,224,224]
      output "prob" %prob f32[1,1000]
      activation %x f32[1,4,112,112,16] logical [1,64,112,112] storage aBcd16b
      kernel %conv1 {"template": "conv2d", "schedule": "...", "source": "default"}
      reason {"nodes": ["conv1"], "op": "Conv", "kernel": "conv1", "algorithm": {...}, "storage": {...}}
    }
    program {
      alloc %x
      call %conv1 @in %data, @in %conv1.weight, @out %x from "conv1" "relu1"
      loop %i 9 limit @in %m while @in %go {
        call %step @in %h, @out %h
      }
      loop %t 35 reverse {
        copy @out %y[%t], @in %h
      }
      dealloc %x
    }

Constants stand with the sha256 of their bytes, kernels with their notes only: both are handed to the parser.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256

import numpy as np

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
    Space,
)
from tilewright.program.rewrite import all_memories
from tilewright.storage import PLAIN

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.$/:\-]+")


def digest(data: np.ndarray) -> str:
    """The sha256 of an array's bytes in C order."""
    return sha256(
        np.ascontiguousarray(data).view(np.uint8).reshape(-1).data if data.size else b""
    ).hexdigest()


def print_program(program: Program) -> str:
    """The text of a program, one instruction a line."""
    lines = [f"program {json.dumps(program.name)}", "declare {"]
    lines += [f"  {line}" for line in _declarations(program)]
    lines += ["}", "program {"]
    for instruction in program.body:
        lines += [f"  {line}" for line in _instruction(instruction)]
    return "\n".join([*lines, "}", ""])


def _declarations(program: Program) -> list[str]:
    lines = [
        f"constant {_memory(memory)} sha256 {digest(data)}" for memory, data in program.constants.values()
    ]
    lines += [f"input {json.dumps(name)} {_memory(memory)}" for name, memory in program.inputs]
    for name, memory in program.outputs:
        counts = [f" count {axis} {json.dumps(count)}" for axis, count in program.counts.get(name, ())]
        lines.append(f"output {json.dumps(name)} {_memory(memory)}{''.join(counts)}")
    declared = {m.name for _, m in (*program.inputs, *program.outputs)} | set(program.constants)
    words = {Space.MUTABLE: "state", Space.ACTIVATION: "activation"}
    lines += [
        f"{words[memory.space]} {_memory(memory)}"
        for memory in all_memories(program).values()
        if memory.name not in declared
    ]
    for name in program.kernels:
        notes = f" {json.dumps(program.notes[name])}" if name in program.notes else ""
        lines.append(f"kernel {_name(name)}{notes}")
    lines += [f"reason {json.dumps(row)}" for row in program.reasons]
    return lines


def _name(name: str) -> str:
    return f"%{name}" if _PLAIN_NAME.fullmatch(name) else f"%{json.dumps(name)}"


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _memory(memory: Memory) -> str:
    text = f"{_name(memory.name)} {memory.dtype}{_shape(memory.shape)}"
    if memory.logical:
        text += f" logical {_shape(memory.logical)}"
    return text if memory.storage == PLAIN else f"{text} storage {memory.storage}"


def _operand(operand: Operand) -> str:
    index = f"[{_name(operand.index)}]" if operand.index else ""
    return f"@{operand.mode} {_name(operand.memory.name)}{index}"


def _instruction(instruction: Instruction) -> list[str]:
    if isinstance(instruction, Alloc):
        return [f"alloc {_name(instruction.memory.name)}"]
    if isinstance(instruction, Dealloc):
        return [f"dealloc {_name(instruction.memory.name)}"]
    if isinstance(instruction, Copy):
        return [f"copy {_operand(instruction.target)}, {_operand(instruction.source)}"]
    if isinstance(instruction, CallKernel):
        args = ", ".join(_operand(arg) for arg in instruction.args)
        origin = "".join(f" {json.dumps(name)}" for name in instruction.origin)
        return [f"call {_name(instruction.kernel)} {args}" + (f" from{origin}" if origin else "")]
    if isinstance(instruction, Loop):
        return [_loop_header(instruction), *_body(instruction.body), "}"]
    assert isinstance(instruction, Branch)
    lines = [f"if {_operand(instruction.condition)} {{", *_body(instruction.then)]
    return [*lines, "} else {", *_body(instruction.orelse), "}"]


def _loop_header(loop: Loop) -> str:
    parts = [f"loop {_name(loop.var)} {loop.trips}"]
    parts += ["reverse"] if loop.reverse else []
    parts += [f"limit {_operand(loop.limit)}"] if loop.limit is not None else []
    parts += [f"while {_operand(loop.condition)}"] if loop.condition is not None else []
    return " ".join([*parts, "{"])


def _body(body: tuple[Instruction, ...]) -> list[str]:
    return [f"  {line}" for instruction in body for line in _instruction(instruction)]
