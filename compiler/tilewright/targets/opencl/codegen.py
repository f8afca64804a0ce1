"""Loop programs -> OpenCL C 1.2: one `__kernel` for each phase of a kernel.

A phase is a statement at the top of a kernel. Phases are launched one after the other: nothing else makes one
work-group see what another one wrote. Bound loops become indices of the work-item; their extents are the
launch's size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.dtypes import BF16, BOOL, F16
from tilewright.errors import CodegenError
from tilewright.expr import Call, Const, Expr, const, free_vars, substitute
from tilewright.faults import fault_number
from tilewright.loops.ir import (
    Allocate,
    Block,
    Evaluate,
    For,
    If,
    Kernel,
    LoopKind,
    Role,
    Stmt,
    Store,
    While,
    seq,
    walk,
)
from tilewright.targets.opencl.c_types import Names, memory_type, private_type, value_type
from tilewright.targets.opencl.expressions import FAULT, Expressions, Home, Lane, Scope, flat_index
from tilewright.targets.opencl.placement import accesses, halved, lane_of, place
from tilewright.targets.opencl.ranges import fits_int32, step_of

_THREAD = re.compile(r"(global|group|block|local|thread)\.([012])")
_PRIVATE_SCOPES = ("local", "register")
_PRIVATE_BYTES = 64 * 1024  # work-items of CPU devices keep private arrays on a thread's stack


@dataclass(frozen=True)
class Phase:
    """One `__kernel`. name: its identifier; text: its source; params: positions of the kernel's parameters.

    global_size, local_size: of a launch, one number a dimension; local_size is None when the device may
    choose; shared_bytes: of local memory, for one work-group; reports: whether there is a last parameter for
    faults in the data.
    """

    name: str
    text: str
    params: tuple[int, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    shared_bytes: int
    reports: bool


def generate(kernel: Kernel, names: Names) -> tuple[Phase, ...]:
    """The phases of a kernel, in the order in which they run. Raises CodegenError naming the kernel."""
    try:
        return tuple(_Generator(kernel, names).phase(part) for part in _phases(kernel.body))
    except CodegenError as error:
        raise CodegenError(f"kernel '{kernel.name}': {error}") from error


def _phases(body: Stmt) -> Iterator[Stmt]:
    """Statements with bound or parallel loops, each by itself; what stands between them, together."""
    parts = body.body if isinstance(body, Block) else (body,)
    between: list[Stmt] = []
    for part in parts:
        if _is_parallel(part):
            part = replace(part, kind=LoopKind.BOUND, thread="global.0")  # type: ignore[type-var]
        if not _is_bound(part):
            between.append(part)
            continue
        if between:
            yield seq(*between)
            between = []
        yield part
    if between:
        yield seq(*between)


def _is_bound(stmt: Stmt) -> bool:
    return any(isinstance(part, For) and part.kind == LoopKind.BOUND for part in walk(stmt))


def _is_parallel(stmt: Stmt) -> bool:
    parallel = isinstance(stmt, For) and stmt.kind == LoopKind.PARALLEL and isinstance(stmt.extent, Const)
    return parallel and not _is_bound(stmt)


class _Generator:
    """Writes one phase; made anew for each."""

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self.kernel = kernel
        self.kernel_names = names
        self.names = Names()
        self.scope = Scope()
        self.expressions = Expressions(self.scope, fault_number(kernel.name))
        self.lines: list[str] = []
        self.shared: list[str] = []
        self.shared_bytes = 0
        self.sizes: dict[tuple[str, int], int] = {}

    def phase(self, body: Stmt) -> Phase:
        used = _buffer_names(body)
        positions = tuple(i for i, p in enumerate(self.kernel.params) if p.name in used)
        declared = [self._parameter(i) for i in positions]
        name = self.kernel_names.fresh("tw", self.kernel.name)
        self._gather_sizes(body)
        self._statement(body, 1, None)
        global_size, local_size = self._launch()
        reqd = ""
        if local_size is not None:
            padded = (*local_size, 1, 1)[:3]
            reqd = f"__attribute__((reqd_work_group_size({', '.join(map(str, padded))})))\n"
        heads = [head for head, _ in declared]
        if self.expressions.reports:
            heads.append(f"__global long *{FAULT}, long {FAULT}_at")
        lines = [*(line for _, line in declared), *self.shared, *self.lines]
        text = f"__kernel {reqd}void {name}({', '.join(heads)})\n{{\n" + "\n".join(lines) + "\n}\n"
        return Phase(
            name, text, positions, global_size, local_size, self.shared_bytes, self.expressions.reports
        )

    def _parameter(self, position: int) -> tuple[str, str]:
        """Head and first line of a parameter: the region's base pointer and an offset in elements."""
        buffer, role = self.kernel.params[position], self.kernel.roles[position]
        shares = any(position in pair for pair in self.kernel.inplace)
        name = self.names.fresh("b", buffer.name)
        self.scope.homes[buffer.name] = Home(buffer, name)
        c_type = f"__global {'const ' if role == Role.IN else ''}{memory_type(buffer.dtype)} *"
        head = f"{c_type}{'' if shares else 'restrict '}{name}_base, long {name}_at"
        return head, f"  {c_type}{name} = {name}_base + {name}_at;"

    # -- launch ------------------------------------------------------------------------------------

    def _gather_sizes(self, body: Stmt) -> None:
        for stmt in walk(body):
            if not (isinstance(stmt, For) and stmt.kind == LoopKind.BOUND):
                continue
            if not isinstance(stmt.extent, Const):
                raise CodegenError(
                    f"loop '{stmt.var.name}' is bound to {stmt.thread}; its extent must be constant"
                )
            kind, dimension = _thread_of(stmt)
            size = int(stmt.extent.value)
            self.sizes[kind, dimension] = max(size, self.sizes.get((kind, dimension), 0))
        for dimension in range(3):
            kinds = {kind for kind, d in self.sizes if d == dimension}
            if "global" in kinds and len(kinds) > 1:
                raise CodegenError(
                    f"dimension {dimension} is bound both as global and as group or local index"
                )

    def _launch(self) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        rank = 1 + max((dimension for _, dimension in self.sizes), default=0)
        groups = any(kind != "global" for kind, _ in self.sizes)
        single = not self.sizes
        local = tuple(self.sizes.get(("local", d), 1) for d in range(rank))
        outer = tuple(
            self.sizes.get(("global", d), self.sizes.get(("group", d), 1)) * local[d] for d in range(rank)
        )
        return outer, local if groups or single else None

    # -- statements --------------------------------------------------------------------------------

    def _emit(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)

    def _statement(self, stmt: Stmt, depth: int, lane: Lane | None) -> None:
        if isinstance(stmt, Block):
            for part in stmt.body:
                self._statement(part, depth, lane)
        elif isinstance(stmt, Store):
            self._store(stmt, depth, lane)
        elif isinstance(stmt, For):
            self._loop(stmt, depth, lane)
        elif isinstance(stmt, If):
            self._branch(stmt, depth, lane)
        elif isinstance(stmt, While):
            self._emit(depth, f"while ({self.expressions.scalar(stmt.condition)}) {{")
            self._statement(stmt.body, depth + 1, lane)
            self._emit(depth, "}")
        elif isinstance(stmt, Allocate):
            self._allocate(stmt, depth, lane)
        elif isinstance(stmt, Evaluate):
            self._evaluate(stmt, depth)
        else:
            raise CodegenError(f"OpenCL has no code rule for the statement {type(stmt).__name__}")

    def _branch(self, stmt: If, depth: int, lane: Lane | None) -> None:
        self._emit(depth, f"if ({self.expressions.scalar(stmt.condition)}) {{")
        self._statement(stmt.then, depth + 1, lane)
        if stmt.orelse is not None:
            self._emit(depth, "} else {")
            self._statement(stmt.orelse, depth + 1, lane)
        self._emit(depth, "}")

    def _evaluate(self, stmt: Evaluate, depth: int) -> None:
        if not (isinstance(stmt.value, Call) and stmt.value.name == "barrier"):
            raise CodegenError(f"OpenCL has no code rule for the intrinsic statement {stmt.value}")
        self._emit(depth, "barrier(CLK_LOCAL_MEM_FENCE);")

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, stmt: For, depth: int, lane: Lane | None) -> None:
        if stmt.kind == LoopKind.BOUND:
            self._bound(stmt, depth, lane)
            return
        parts = halved(stmt) if lane is None else None
        if parts is not None:
            self._loop(parts, depth, None)
            return
        lanes = lane_of(stmt) if lane is None else None
        if lanes is not None:
            self._statement(stmt.body, depth, lanes)
            return
        if stmt.kind == LoopKind.VIRTUAL:
            raise CodegenError(f"loop '{stmt.var.name}' is a virtual thread; it must be lowered first")
        start, extent = self.expressions.scalar(stmt.start), self.expressions.scalar(stmt.extent)
        c_type, name = self._declare(stmt)
        if stmt.kind in (LoopKind.UNROLLED, LoopKind.VECTORIZED) and isinstance(stmt.extent, Const):
            self._emit(depth, f"#pragma unroll {stmt.extent.value}")
        end = extent if start == "0" else f"{start} + {extent}"
        self._emit(depth, f"for ({c_type} {name} = {start}; {name} < {end}; ++{name}) {{")
        self._statement(stmt.body, depth + 1, lane)
        self._emit(depth, "}")

    def _declare(self, stmt: For) -> tuple[str, str]:
        """C type and identifier of a loop's variable; its range is recorded."""
        name = stmt.var.name
        self.scope.names[name] = identifier = self.names.fresh("v", name)
        low, start = self.scope.bounds.of(stmt.start)
        last = max(low, start + self.scope.bounds.of(stmt.extent)[1] - 1)
        self.scope.bounds = self.scope.bounds.extended(name, low, last)
        # the end itself is compared with the variable, so it must fit too
        if fits_int32((low, last + 1)):
            self.scope.wide.discard(name)
            return "int", identifier
        self.scope.wide.add(name)
        return "long", identifier

    def _bound(self, stmt: For, depth: int, lane: Lane | None) -> None:
        kind, dimension = _thread_of(stmt)
        start = self.expressions.scalar(stmt.start)
        c_type, name = self._declare(stmt)
        value = f"({c_type})get_{kind}_id({dimension})"
        self._emit(depth, "{")
        self._emit(depth + 1, f"const {c_type} {name} = {value if start == '0' else f'{start} + {value}'};")
        extent = int(stmt.extent.value)  # type: ignore[attr-defined]
        guarded = extent < self.sizes[kind, dimension]
        if guarded:
            self._emit(depth + 1, f"if (get_{kind}_id({dimension}) < {extent}) {{")
        self._statement(stmt.body, depth + 1 + guarded, lane)
        if guarded:
            self._emit(depth + 1, "}")
        self._emit(depth, "}")

    # -- memory ------------------------------------------------------------------------------------

    def _allocate(self, stmt: Allocate, depth: int, lane: Lane | None) -> None:
        buffer = stmt.buffer
        name = self.names.fresh("b", buffer.name)
        if buffer.scope == "shared":
            self.scope.homes[buffer.name] = Home(buffer, name)
            # OpenCL C declares local memory at the top of a kernel only
            self.shared.append(f"  __local {memory_type(buffer.dtype)} {name}[{max(buffer.size, 1)}];")
            self.shared_bytes += buffer.bytes
            self._statement(stmt.body, depth, lane)
            return
        if buffer.scope not in _PRIVATE_SCOPES:
            raise CodegenError(
                f"buffer '{buffer.name}' has scope '{buffer.scope}', which a work-item cannot allocate; "
                f"use {', '.join(_PRIVATE_SCOPES)} or shared, or make it a parameter"
            )
        if _is_bound(stmt.body):
            raise CodegenError(
                f"buffer '{buffer.name}' is private to a work-item but stands around loops that are bound to "
                "work-items; compute it inside them or put it into scope heap"
            )
        home = place(buffer, stmt.body, name)
        if home.form == "memory" and buffer.bytes > _PRIVATE_BYTES:
            raise CodegenError(
                f"buffer '{buffer.name}' of {buffer.bytes} bytes is too large for private memory "
                f"({_PRIVATE_BYTES} bytes); compute it at an inner loop or make it a parameter"
            )
        self.scope.homes[buffer.name] = home
        self._emit(depth, "{")
        self._emit(depth + 1, _declaration(home))
        self._statement(stmt.body, depth + 1, lane)
        self._emit(depth, "}")

    def _store(self, stmt: Store, depth: int, lane: Lane | None) -> None:
        home = self.scope.home(stmt.buffer)
        if lane is not None:
            self._store_lanes(stmt, home, depth, lane)
            return
        value = self.expressions.scalar(stmt.value)
        if home.form != "memory":
            self._emit(depth, f"{self.expressions.element(home, stmt.indices)} = {value};")
            return
        self._emit(depth, _store_text(home, self.expressions.address(stmt.buffer, stmt.indices), value))

    def _store_lanes(self, stmt: Store, home: Home, depth: int, lane: Lane) -> None:
        value = self.expressions.vector(stmt.value, lane)
        if home.form == "vectors":
            self._emit(depth, f"{self.expressions.vector_variable(home, stmt.indices)} = {value};")
            return
        index = flat_index(stmt.buffer, stmt.indices)
        if home.form == "memory" and stmt.value.dtype.name == "f32" and step_of(index, lane.name) == 1:
            address = self.expressions.scalar(_with_lane(index, lane, 0))
            self._emit(depth, f"vstore{lane.count}({value}, 0, {home.text} + {address});")
            return
        temporary = self.names.fresh("t", stmt.buffer.name)
        self._emit(depth, f"const {value_type(stmt.value.dtype)}{lane.count} {temporary} = {value};")
        for number in range(lane.count):
            indices = tuple(_with_lane(i, lane, number) for i in stmt.indices)
            element = f"{temporary}.s{number:x}"
            if home.form == "scalars":
                self._emit(depth, f"{self.expressions.element(home, indices)} = {element};")
            else:
                self._emit(depth, _store_text(home, self.expressions.address(stmt.buffer, indices), element))


def _with_lane(e: Expr, lane: Lane, number: int) -> Expr:
    return substitute(e, {lane.name: const(number)}) if lane.name in free_vars(e) else e


def _thread_of(loop: For) -> tuple[str, int]:
    match = _THREAD.fullmatch(loop.thread)
    if match is None:
        raise CodegenError(
            f"loop '{loop.var.name}' is bound to '{loop.thread}'; "
            "known are global.N, group.N and local.N with N = 0, 1, 2"
        )
    kind = {"block": "group", "thread": "local"}.get(match.group(1), match.group(1))
    return kind, int(match.group(2))


def _buffer_names(body: Stmt) -> set[str]:
    return {name for name, _, _ in accesses(body)}


def _declaration(home: Home) -> str:
    """Declares the variables or the array of a private buffer."""
    buffer, c_type = home.buffer, private_type(home.buffer.dtype)
    if home.form == "memory":
        return f"{c_type} {home.text}[{max(buffer.size, 1)}];"
    if home.form == "scalars":
        return f"{c_type} {', '.join(f'{home.text}_{i}' for i in range(buffer.size))};"
    vectors = buffer.size // buffer.shape[-1]
    wide = f"{c_type}{buffer.shape[-1]}"
    if home.fixed:
        return f"{wide} {', '.join(f'{home.text}_{i}' for i in range(vectors))};"
    return f"{wide} {home.text}[{vectors}];"


def _store_text(home: Home, index: str, value: str) -> str:
    dtype = home.buffer.dtype
    if dtype == F16 and not home.private:
        return f"vstore_half_rte({value}, {index}, {home.text});"
    if dtype == BF16 and not home.private:
        return f"{home.text}[{index}] = tw_bf16_bits({value});"
    if dtype == BOOL:
        return f"{home.text}[{index}] = ({value}) ? 1 : 0;"
    return f"{home.text}[{index}] = {value};"
