"""Loop program to LLVM text: `void @kernel(ptr %p0, ..., ptr %env)`.

Parallel loops become functions of their own, run through env's parallel_for. Vectorised loops become vector
code; everything that only moves addresses is hoisted as the loops are written.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import BOOL, I64
from tilewright.errors import CodegenError
from tilewright.expr import Const, Expr, const
from tilewright.faults import fault_number
from tilewright.loops.ir import (
    Allocate,
    Block,
    Buffer,
    For,
    If,
    Kernel,
    LoopKind,
    Role,
    Stmt,
    Store,
    While,
    walk,
)
from tilewright.loops.simplify import bind
from tilewright.machine import Machine
from tilewright.targets.cpu import codegen_dot, codegen_tile, codegen_transpose
from tilewright.targets.cpu import codegen_memory as memory
from tilewright.targets.cpu.codegen_address import scalar_index
from tilewright.targets.cpu.codegen_builder import Function, Module
from tilewright.targets.cpu.codegen_context import Binding, Context, Pointer, Registers, VectorLoop
from tilewright.targets.cpu.codegen_expressions import both, evaluate
from tilewright.targets.cpu.codegen_prepare import (
    Access,
    accesses_of,
    register_slots,
    settle_loops,
    used_names,
)
from tilewright.targets.cpu.codegen_types import Value, literal, memory_type, register_type, vector_type

SYMBOL = "kernel"
MAX_LOCAL_BYTES = 1 << 20  # threads of other programs may have small stacks
_MAX_UNROLLED = 1024
# Code rules of intrinsics; each says whether it wrote the loop, which is written as any other if not.
_RULES = {
    "transpose": codegen_transpose.rule,
    **dict.fromkeys(codegen_dot.DOTS, codegen_dot.rule),
    **codegen_tile.RULES,
}


def kernel_text(kernel: Kernel, machine: Machine) -> str:
    """The LLVM module of a kernel; its function is named `kernel`. Raises CodegenError, naming the kernel."""
    try:
        return _KernelWriter(kernel, machine).text()
    except CodegenError as error:
        raise CodegenError(f"kernel '{kernel.name}': {error}") from error


class _KernelWriter:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.module = Module(machine)
        self.tasks = 0
        self.local_bytes = 0
        self.accesses: dict[str, list[Access]] | None = None
        shared = {position for pair in kernel.inplace for position in pair}
        self.aliased = {kernel.params[position].name for position in shared}
        read = {b.name for b, role in zip(kernel.params, kernel.roles, strict=True) if role == Role.IN}
        self.constant = read - self.aliased

    def text(self) -> str:
        function = Function(self.module)
        places = {
            b.name: Pointer(f"%p{i}", b.name in self.constant) for i, b in enumerate(self.kernel.params)
        }
        body = settle_loops(self.kernel.body)
        names = [part.buffer.name for part in walk(body) if isinstance(part, Allocate)]
        if len(set(names)) == len(names):  # one look at the kernel serves all its buffers
            self.accesses = accesses_of(body)
        self._statement(Context(function, places=places, fault=fault_number(self.kernel.name)), body)
        codegen_tile.finish(function)
        function.emit("ret void")
        parameters = [self._parameter(b.name, f"%p{i}") for i, b in enumerate(self.kernel.params)]
        self.module.functions.append(function.text(f"void @{SYMBOL}({', '.join([*parameters, 'ptr %env'])})"))
        return self.module.text()

    def _parameter(self, buffer: str, ref: str) -> str:
        return f"ptr {'' if buffer in self.aliased else 'noalias '}{ref}"

    def _statement(self, context: Context, stmt: Stmt) -> None:
        if isinstance(stmt, Block):
            for part in stmt.body:
                self._statement(context, part)
        elif isinstance(stmt, Store):
            self._store(context, stmt)
        elif isinstance(stmt, For):
            self._for(context, stmt)
        elif isinstance(stmt, If):
            self._if(context, stmt)
        elif isinstance(stmt, While):
            self._while(context, stmt)
        elif isinstance(stmt, Allocate):
            self._allocate(context, stmt)
        else:
            raise CodegenError(f"statement {type(stmt).__name__} has no code on the CPU")

    def _store(self, context: Context, stmt: Store) -> None:
        value = evaluate(context, stmt.value)
        if value.dtype != stmt.buffer.dtype:
            raise CodegenError(
                f"'{stmt.buffer.name}' holds {stmt.buffer.dtype}, a {value.dtype} is stored to it"
            )
        memory.store(context, stmt.buffer, stmt.indices, value, evaluate)

    def _allocate(self, context: Context, stmt: Allocate) -> None:
        buffer = stmt.buffer
        if buffer.scope == "tile":
            tiles = codegen_tile.allocate(context, stmt)
            self._statement(context.with_place(buffer, tiles), stmt.body)
            context.function.tiles.release(tiles.numbers.values())
            return
        if buffer.scope not in ("local", "register", "heap"):
            raise CodegenError(f"buffer '{buffer.name}': scope '{buffer.scope}' does not exist on the CPU")
        element = memory_type(buffer.dtype)
        slots = None
        if buffer.scope == "register":
            accesses = accesses_of(stmt.body) if self.accesses is None else self.accesses
            slots = register_slots(buffer, accesses.get(buffer.name, []))
        if slots is None:
            self._count_local(buffer)
            place = Pointer(context.function.alloca(element, max(buffer.size, 1)))
            self._statement(context.with_place(buffer, place), stmt.body)
            return
        lanes, indices = slots
        stored = vector_type(register_type(buffer.dtype), lanes)
        registers = Registers(lanes, {index: context.function.alloca(stored) for index in indices})
        self._statement(context.with_place(buffer, registers), stmt.body)

    def _count_local(self, buffer: Buffer) -> None:
        self.local_bytes += buffer.bytes
        if self.local_bytes > MAX_LOCAL_BYTES:
            raise CodegenError(
                f"local buffers need {self.local_bytes} bytes of stack, {MAX_LOCAL_BYTES} are allowed; "
                f"make '{buffer.name}' a scratch parameter"
            )

    def _if(self, context: Context, stmt: If) -> None:
        function = context.function
        condition = evaluate(context, stmt.condition)
        if condition.lanes:
            self._if_by_lane(context, stmt, condition)
            return
        then, orelse, join = (function.fresh(stem) for stem in ("then", "else", "join"))
        function.branch_if(condition.ref, then, orelse if stmt.orelse else join)
        function.label(then)
        self._statement(context, stmt.then)
        function.branch(join)
        if stmt.orelse:
            function.label(orelse)
            self._statement(context, stmt.orelse)
            function.branch(join)
        function.label(join)

    def _if_by_lane(self, context: Context, stmt: If, condition: Value) -> None:
        self._statement(replace(context, mask=both(context, condition)), stmt.then)
        if stmt.orelse:
            inverse = context.function.op(f"xor {condition}, splat (i1 true)")
            mask = both(context, Value(inverse, BOOL, condition.lanes))
            self._statement(replace(context, mask=mask), stmt.orelse)

    def _while(self, context: Context, stmt: While) -> None:
        function = context.function
        head, body, end = (function.fresh(stem) for stem in ("while", "body", "end"))
        function.branch(head)
        function.label(head)
        condition = evaluate(context, stmt.condition)
        if condition.lanes:
            raise CodegenError("the condition of a while loop differs by lane")
        function.branch_if(condition.ref, body, end)
        function.label(body)
        self._statement(context, stmt.body)
        function.branch(head)
        function.label(end)

    def _for(self, context: Context, stmt: For) -> None:
        rule = _RULES.get(stmt.intrinsic)
        if rule is not None and rule(context, stmt, evaluate):
            return
        if stmt.kind == LoopKind.VECTORIZED:
            vector = VectorLoop(stmt.var.name, int(stmt.extent.value))  # type: ignore[attr-defined]
            self._statement(replace(context, vector=vector), stmt.body)
        elif stmt.kind == LoopKind.PARALLEL and not context.parallel:
            self._parallel(context, stmt)
        elif stmt.kind in (LoopKind.SERIAL, LoopKind.PARALLEL):
            self._serial(context, stmt)
        elif stmt.kind == LoopKind.UNROLLED:
            self._unrolled(context, stmt)
        else:
            raise CodegenError(f"loop '{stmt.var.name}': kind {stmt.kind} does not exist on the CPU")

    def _unrolled(self, context: Context, stmt: For) -> None:
        size = sum(1 for _ in walk(stmt.body))
        extent, start = stmt.extent, stmt.start
        if (
            not isinstance(extent, Const)
            or not isinstance(start, Const)
            or extent.value * size > _MAX_UNROLLED
        ):
            self._serial(context, stmt)
            return
        for turn in range(int(extent.value)):
            self._statement(context, bind(stmt.body, stmt.var, const(int(start.value) + turn)))

    def _serial(self, context: Context, stmt: For) -> None:
        function = context.function
        low, high = context.bounds.of_loop(stmt.start, stmt.extent)
        if isinstance(stmt.extent, Const) and stmt.extent.value <= 0:
            return
        start = _scalar(context, stmt.start)
        if isinstance(stmt.extent, Const) and stmt.extent.value == 1:
            function.push_scope()
            binding = Binding(start, len(function.scopes) - 1)
            bounds = context.bounds.extended(stmt.var.name, low, high)
            self._statement(context.bind(stmt.var.name, binding, bounds), stmt.body)
            function.pop_scope()
            return
        extent = _scalar(context, stmt.extent)
        end = extent.ref
        if start.ref != "0":
            end = function.op(f"add nsw i64 {start.ref}, {extent.ref}")
        self._loop(context, stmt, start.ref, end, not isinstance(stmt.extent, Const))

    def _loop(self, context: Context, stmt: For, start: str, end: str, may_be_empty: bool) -> None:
        """`for var in [start, end)`, tested at the bottom."""
        function = context.function
        head, latch, done = (function.fresh(stem) for stem in ("loop", "next", "done"))
        if may_be_empty:
            some = function.op(f"icmp slt i64 {start}, {end}")
            before = function.fresh("ready")
            function.branch_if(some, before, done)
            function.label(before)
        before = function.block
        function.branch(head)
        function.label(head)
        following = f"%{function.fresh('i')}"
        variable = function.op(f"phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]")
        function.push_scope()
        binding = Binding(Value(variable, I64), len(function.scopes) - 1)
        bounds = context.bounds.extended(stmt.var.name, *context.bounds.of_loop(stmt.start, stmt.extent))
        self._statement(context.bind(stmt.var.name, binding, bounds), stmt.body)
        function.pop_scope()
        function.branch(latch)
        function.label(latch)
        function.emit(f"{following} = add nsw i64 {variable}, 1")
        function.branch_if(function.op(f"icmp slt i64 {following}, {end}"), head, done)
        function.label(done)

    def _parallel(self, context: Context, stmt: For) -> None:
        """A task function for a range of turns; what it needs from here travels in a struct on the stack."""
        function = context.function
        variables, buffers = used_names(stmt.body)
        variables = [name for name in variables if name in context.variables]
        buffers = [name for name in buffers if name in context.places]
        start = _scalar(context, stmt.start)
        extent = _scalar(context, stmt.extent)
        captured = [("i64", context.variables[name].value.ref) for name in variables]
        captured += [("ptr", _pointer(context, name).ref) for name in buffers]
        captured += [("i64", start.ref), ("ptr", "%env")]
        task = self._task(context, stmt, variables, buffers)
        block = function.alloca("i64", len(captured))
        for position, (type_text, ref) in enumerate(captured):
            slot = function.op(f"getelementptr i64, ptr {block}, i64 {position}")
            function.emit(f"store {type_text} {ref}, ptr {slot}, align 8")
        run = function.op("load ptr, ptr %env, align 8")
        function.emit(f"call void {run}(ptr %env, ptr @{task}, ptr {block}, i64 {extent.ref})")
        function.tiles.forked()
        function.start_tiles()

    def _task(self, context: Context, stmt: For, variables: list[str], buffers: list[str]) -> str:
        """Two functions: one unpacks the struct; one, inlined into it, has parameters known not to alias."""
        name = f"{SYMBOL}.task{self.tasks}"
        self.tasks += 1
        body = Function(self.module)
        inner = Context(body, bounds=context.bounds, parallel=True, fault=context.fault)
        for position, variable in enumerate(variables):
            inner = inner.bind(variable, Binding(Value(f"%c{position}", I64), 0), context.bounds)
        places = {b: replace(_pointer(context, b), ref=f"%b{position}") for position, b in enumerate(buffers)}
        begin = body.op("add nsw i64 %begin, %start")
        end = body.op("add nsw i64 %end, %start")
        self._loop(replace(inner, places=places), stmt, begin, end, True)
        codegen_tile.finish(body)
        body.emit("ret void")
        parameters = [("i64", f"%c{i}") for i in range(len(variables))]
        parameters += [(self._parameter(b, "").rstrip(), f"%b{i}") for i, b in enumerate(buffers)]
        parameters += [("i64", "%start"), ("ptr", "%env")]
        signature = ", ".join(f"{t} {n}" for t, n in [*parameters, ("i64", "%begin"), ("i64", "%end")])
        self.module.functions.append(body.text(f"internal void @{name}.body({signature})", "#1"))
        self.module.functions.append(self._unpacker(name, [t.split()[0] for t, _ in parameters]))
        return name

    def _unpacker(self, name: str, types: list[str]) -> str:
        function = Function(self.module)
        arguments = []
        for position, type_text in enumerate(types):
            slot = function.op(f"getelementptr i64, ptr %context, i64 {position}")
            arguments.append(f"{type_text} {function.op(f'load {type_text}, ptr {slot}, align 8')}")
        function.emit(f"call void @{name}.body({', '.join([*arguments, 'i64 %begin', 'i64 %end'])})")
        function.emit("ret void")
        return function.text(f"internal void @{name}(ptr %context, i64 %begin, i64 %end)")


def _pointer(context: Context, name: str) -> Pointer:
    place = context.places[name]
    if not isinstance(place, Pointer):
        raise CodegenError(f"buffer '{name}' in registers is shared by a parallel loop")
    return place


def _scalar(context: Context, e: Expr) -> Value:
    """A loop bound: an i64 that is the same for all lanes."""
    if isinstance(e, Const):
        return literal(e.value, I64)
    if context.depth(e) is not None:
        return Value(scalar_index(context, e), I64)
    value = evaluate(context, e)
    if value.lanes or value.dtype != I64:
        raise CodegenError(f"loop bound {e} is no i64 scalar")
    return value
