"""A program and its memory plan to LLVM text of its entry.

    i32 run(ptr constants, ptr mutable, ptr activations, ptr env)

The entry calls kernels with pointers at planned offsets; loops and branches of the program are loops and
branches of the entry, so a whole network is one native call. After every instruction the cycles it took are
added to a slot of env's trace, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.errors import CodegenError
from tilewright.machine import Machine
from tilewright.program.ir import (
    Alloc,
    Branch,
    CallKernel,
    Copy,
    Dealloc,
    Instruction,
    Loop,
    Operand,
    Program,
    Space,
    walk,
)
from tilewright.program.plan import Plan
from tilewright.targets.cpu.codegen_builder import Function, Module
from tilewright.targets.cpu.device import ENV_PORTS, ENV_TRACE

RUN = "tilewright.run"
_REGIONS = {Space.CONSTANT: "%constants", Space.MUTABLE: "%mutable", Space.ACTIVATION: "%activations"}
_BLOCK = 64  # bytes that a copy moves at a time

_TICK = f"""
declare i64 @llvm.readcyclecounter()
define internal void @tick(ptr %env, i64 %slot) noinline nounwind {{
entry:
  %p = getelementptr i8, ptr %env, i64 {8 * ENV_TRACE}
  %trace = load ptr, ptr %p, align 8
  %off = icmp eq ptr %trace, null
  br i1 %off, label %out, label %on
on:
  %now = call i64 @llvm.readcyclecounter()
  %before = load i64, ptr %trace, align 8
  %spent = sub i64 %now, %before
  %q = getelementptr i64, ptr %trace, i64 %slot
  %old = load i64, ptr %q, align 8
  %new = add i64 %old, %spent
  store i64 %new, ptr %q, align 8
  store i64 %now, ptr %trace, align 8
  br label %out
out:
  ret void
}}
define internal void @copy(ptr noalias %to, ptr noalias %from, i64 %bytes) noinline nounwind "no-builtins" {{
entry:
  %blocks = and i64 %bytes, {-_BLOCK}
  br label %wide
wide:
  %i = phi i64 [ 0, %entry ], [ %i1, %move ]
  %more = icmp slt i64 %i, %blocks
  br i1 %more, label %move, label %tail
move:
  %a = getelementptr i8, ptr %from, i64 %i
  %b = getelementptr i8, ptr %to, i64 %i
  %v = load <{_BLOCK} x i8>, ptr %a, align 1
  store <{_BLOCK} x i8> %v, ptr %b, align 1
  %i1 = add i64 %i, {_BLOCK}
  br label %wide
tail:
  %j = phi i64 [ %blocks, %wide ], [ %j1, %byte ]
  %rest = icmp slt i64 %j, %bytes
  br i1 %rest, label %byte, label %out
byte:
  %c = getelementptr i8, ptr %from, i64 %j
  %d = getelementptr i8, ptr %to, i64 %j
  %w = load i8, ptr %c, align 1
  store i8 %w, ptr %d, align 1
  %j1 = add i64 %j, 1
  br label %tail
out:
  ret void
}}
"""


def traced(program: Program) -> list[str]:
    """Names of what has a trace slot, in order: kernel calls and copies."""
    names = []
    for instruction in walk(program.body):
        if isinstance(instruction, CallKernel):
            names.append(instruction.kernel)
        elif isinstance(instruction, Copy):
            names.append(f"copy {instruction.target.memory.name}")
    return names


def entry_text(program: Program, plan: Plan, symbols: Mapping[str, str], machine: Machine) -> str:
    """symbols: every kernel's name in the image. Raises CodegenError for a buffer that the plan forgot."""
    writer = _EntryWriter(program, plan, symbols, machine)
    return writer.text()


class _EntryWriter:
    def __init__(self, program: Program, plan: Plan, symbols: Mapping[str, str], machine: Machine) -> None:
        self.program, self.plan, self.symbols = program, plan, symbols
        self.module = Module(machine)
        self.function = Function(self.module)
        self.slot = 0
        self.ports: dict[str, str] = {}  # pointers of inputs and outputs, by name of their buffer

    def text(self) -> str:
        function = self.function
        self._load_ports()
        function.emit("call void @tick(ptr %env, i64 0)")
        self._body(self.program.body, {})
        function.emit("ret i32 0")
        parameters = ", ".join(f"ptr {name}" for name in (*_REGIONS.values(), "%env"))
        for name, symbol in sorted({self.symbols[n]: n for n in self.program.kernels}.items()):
            count = len(self.program.kernels[symbol].params) + 1
            self.module.declarations[name] = f'declare void @"{name}"({", ".join(["ptr"] * count)})'
        self.module.functions.append(function.text(f'i32 @"{RUN}"({parameters})'))
        return self.module.text() + _TICK

    def _load_ports(self) -> None:
        """Inputs and outputs are the caller's arrays."""
        function = self.function
        field = function.op(f"getelementptr i8, ptr %env, i64 {8 * ENV_PORTS}")
        table = function.op(f"load ptr, ptr {field}, align 8")
        for position, (_, memory) in enumerate([*self.program.inputs, *self.program.outputs]):
            slot = function.op(f"getelementptr ptr, ptr {table}, i64 {position}")
            self.ports[memory.name] = function.op(f"load ptr, ptr {slot}, align 8")

    def _body(self, body: tuple[Instruction, ...], indices: Mapping[str, str]) -> None:
        for instruction in body:
            if isinstance(instruction, (Alloc, Dealloc)):
                continue
            if isinstance(instruction, CallKernel):
                self._call(instruction, indices)
            elif isinstance(instruction, Copy):
                self._copy(instruction, indices)
            elif isinstance(instruction, Loop):
                self._loop(instruction, indices)
            elif isinstance(instruction, Branch):
                self._branch(instruction, indices)
            else:
                raise CodegenError(f"instruction {type(instruction).__name__} has no code on the CPU")

    def _tick(self) -> None:
        self.slot += 1
        self.function.emit(f"call void @tick(ptr %env, i64 {self.slot})")

    def _pointer(self, operand: Operand, indices: Mapping[str, str]) -> str:
        memory, function = operand.memory, self.function
        if memory.name not in self.plan.offsets:
            raise CodegenError(f"buffer '{memory.name}' has no place in the memory plan")
        offset = self.plan.offsets[memory.name]
        pointer = self.ports.get(memory.name) or function.op(
            f"getelementptr i8, ptr {_REGIONS[memory.space]}, i64 {offset}"
        )
        if not operand.index:
            return pointer
        if operand.index not in indices:
            raise CodegenError(f"buffer '{memory.name}' is indexed by '{operand.index}' outside its loop")
        step = prod(memory.shape[1:]) * memory.dtype.bytes
        distance = function.op(f"mul nsw i64 {indices[operand.index]}, {step}")
        return function.op(f"getelementptr i8, ptr {pointer}, i64 {distance}")

    def _call(self, instruction: CallKernel, indices: Mapping[str, str]) -> None:
        if instruction.kernel not in self.symbols:
            raise CodegenError(f"kernel '{instruction.kernel}' is called and not defined")
        expected = len(self.program.kernels[instruction.kernel].params)
        if len(instruction.args) != expected:
            raise CodegenError(
                f"kernel '{instruction.kernel}' has {expected} parameters, not {len(instruction.args)}"
            )
        arguments = [f"ptr {self._pointer(operand, indices)}" for operand in instruction.args]
        target = self.symbols[instruction.kernel]
        self.function.emit(f'call void @"{target}"({", ".join([*arguments, "ptr %env"])})')
        self._tick()

    def _copy(self, instruction: Copy, indices: Mapping[str, str]) -> None:
        target, source = (self._pointer(o, indices) for o in (instruction.target, instruction.source))
        size = min(_bytes(instruction.target), _bytes(instruction.source))
        self.function.emit(f"call void @copy(ptr {target}, ptr {source}, i64 {size})")
        self._tick()

    def _loop(self, instruction: Loop, indices: Mapping[str, str]) -> None:
        if instruction.trips <= 0:
            self.slot += sum(isinstance(i, (CallKernel, Copy)) for i in walk(instruction.body))
            return
        function = self.function
        head, body, done = (function.fresh(stem) for stem in ("loop", "turn", "done"))
        turns = self._turns(instruction, indices)
        before = function.block
        function.branch(head)
        function.label(head)
        following, latch = f"%{function.fresh('i')}", function.fresh("next")
        turn = function.op(f"phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        more = function.op(f"icmp slt i64 {turn}, {turns}")
        if instruction.condition is not None:
            more = function.op(f"and i1 {more}, {self._flag(instruction.condition, indices)}")
        function.branch_if(more, body, done)
        function.label(body)
        index = turn
        if instruction.reverse:
            last = function.op(f"sub nsw i64 {turns}, 1")
            index = function.op(f"sub nsw i64 {last}, {turn}")
        self._body(instruction.body, {**indices, instruction.var: index})
        function.branch(latch)
        function.label(latch)
        function.emit(f"{following} = add nsw i64 {turn}, 1")
        function.branch(head)
        function.label(done)

    def _turns(self, instruction: Loop, indices: Mapping[str, str]) -> str:
        """The number of turns, as far as it is known before the first."""
        if instruction.limit is None:
            return str(instruction.trips)
        function = self.function
        limit = function.op(f"load i64, ptr {self._pointer(instruction.limit, indices)}, align 8")
        fewer = function.op(f"icmp slt i64 {limit}, {instruction.trips}")
        return function.op(f"select i1 {fewer}, i64 {limit}, i64 {instruction.trips}")

    def _flag(self, condition: Operand, indices: Mapping[str, str]) -> str:
        raw = self.function.op(f"load i8, ptr {self._pointer(condition, indices)}, align 1")
        return self.function.op(f"icmp ne i8 {raw}, 0")

    def _branch(self, instruction: Branch, indices: Mapping[str, str]) -> None:
        function = self.function
        then, orelse, join = (function.fresh(stem) for stem in ("then", "else", "join"))
        function.branch_if(self._flag(instruction.condition, indices), then, orelse)
        function.label(then)
        self._body(instruction.then, indices)
        function.branch(join)
        function.label(orelse)
        self._body(instruction.orelse, indices)
        function.branch(join)
        function.label(join)


def _bytes(operand: Operand) -> int:
    memory = operand.memory
    return memory.bytes // memory.shape[0] if operand.index else memory.bytes
