"""Loop programs: TVM's lowered program. Loops, branches, stores to buffers, and nothing else.

Buffers have memory shapes (row-major). A buffer in scope `register` holds scalars or one vector register an
element; its indices are constants once loops are unrolled and vectorised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod

from tilewright.dtypes import I64, DType
from tilewright.expr import Expr, Var, const


class LoopKind(StrEnum):
    """How a loop runs. A bound loop is an index of the device: its axis name is in `For.thread`."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    BOUND = "bound"
    VIRTUAL = "virtual"


@dataclass(frozen=True)
class Buffer:
    """Memory of a kernel. scope: global (a parameter), heap (scratch in the arena), local, shared,
    register, tile, ...
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    scope: str = "global"

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.bytes


class Stmt:
    """Base of all statements."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """`for var in [start, start + extent)`.

    intrinsic: with the loops inside, it computes what the intrinsic of this name does, which may replace it.
    """

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    start: Expr = field(default=const(0, I64))
    thread: str = ""
    intrinsic: str = ""


@dataclass(frozen=True, slots=True)
class If(Stmt):
    condition: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """Runs the body as long as the condition, evaluated before each turn, holds."""

    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    """buffer[indices] = value."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Allocate(Stmt):
    """The buffer lives in the body only; its contents are undefined at first."""

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, slots=True)
class Evaluate(Stmt):
    """An intrinsic call for its effect, e.g. a barrier."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """Statements in order."""

    body: tuple[Stmt, ...]


class Role(StrEnum):
    """How a kernel uses a parameter; an `out` parameter is written whole."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCRATCH = "scratch"


@dataclass(frozen=True)
class Kernel:
    """A loop program over parameters. roles: one a parameter.

    inplace: pairs (output, input) of parameter positions that may share memory: each element of the input
    is read, for the last time, no later than the element of the output at the same place is written.
    """

    name: str
    params: tuple[Buffer, ...]
    roles: tuple[Role, ...]
    body: Stmt
    inplace: tuple[tuple[int, int], ...] = ()

    def with_body(self, body: Stmt) -> Kernel:
        return replace(self, body=body)


def seq(*stmts: Stmt | None) -> Stmt:
    """One statement that runs all; nested blocks are flattened and None is left out."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Block):
            flat += stmt.body
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def sub_statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """Direct sub-statements."""
    if isinstance(stmt, (For, While, Allocate)):
        return (stmt.body,)
    if isinstance(stmt, If):
        return (stmt.then,) if stmt.orelse is None else (stmt.then, stmt.orelse)
    return stmt.body if isinstance(stmt, Block) else ()


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """The statement and everything below it, outermost first."""
    yield stmt
    for part in sub_statements(stmt):
        yield from walk(part)


def map_statements(stmt: Stmt, rule: Callable[[Stmt], Stmt]) -> Stmt:
    """The same statement with `rule` applied to its direct sub-statements."""
    if isinstance(stmt, (For, While, Allocate)):
        body = rule(stmt.body)
        return stmt if body is stmt.body else replace(stmt, body=body)
    if isinstance(stmt, If):
        return If(stmt.condition, rule(stmt.then), None if stmt.orelse is None else rule(stmt.orelse))
    if isinstance(stmt, Block):
        return seq(*(rule(part) for part in stmt.body))
    return stmt


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Expressions that stand directly in the statement."""
    if isinstance(stmt, For):
        return (stmt.start, stmt.extent)
    if isinstance(stmt, (If, While)):
        return (stmt.condition,)
    if isinstance(stmt, Store):
        return (*stmt.indices, stmt.value)
    return (stmt.value,) if isinstance(stmt, Evaluate) else ()


def map_expressions(stmt: Stmt, rule: Callable[[Expr], Expr]) -> Stmt:
    """The statement with `rule` applied to every expression in it and below it."""
    if isinstance(stmt, For):
        stmt = replace(stmt, start=rule(stmt.start), extent=rule(stmt.extent))
    elif isinstance(stmt, (If, While)):
        stmt = replace(stmt, condition=rule(stmt.condition))
    elif isinstance(stmt, Store):
        return Store(stmt.buffer, tuple(rule(i) for i in stmt.indices), rule(stmt.value))
    elif isinstance(stmt, Evaluate):
        return Evaluate(rule(stmt.value))
    return map_statements(stmt, lambda part: map_expressions(part, rule))
