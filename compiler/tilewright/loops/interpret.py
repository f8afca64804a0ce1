"""Reference meaning of loop programs: run them element by element, for small extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.arithmetic import BINARY, INTRINSICS
from tilewright.errors import LoweringError
from tilewright.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from tilewright.loops.ir import Allocate, Block, Buffer, Evaluate, For, If, Kernel, Stmt, Store, While

LIMIT = 1_000_000


def interpret(kernel: Kernel, arrays: Sequence[np.ndarray]) -> None:
    """Run a kernel on arrays in memory shape, one a parameter; results are written in place.

    A read or store outside of a buffer raises IndexError; more than LIMIT stores raise LoweringError.
    """
    memory = dict(zip(kernel.params, arrays, strict=True))
    for buffer, array in memory.items():
        if array.shape != buffer.shape or array.dtype != buffer.dtype.numpy:
            found = f"{array.dtype}{array.shape}"
            raise LoweringError(
                f"{kernel.name}: '{buffer.name}' is {buffer.dtype}{buffer.shape}, found {found}"
            )
    with np.errstate(all="ignore"):
        _Run(memory).statement(kernel.body, {})


class _Run:
    def __init__(self, memory: dict[Buffer, np.ndarray]) -> None:
        self.memory = memory
        self.stores = 0

    def statement(self, stmt: Stmt, env: dict[str, Any]) -> None:
        if isinstance(stmt, Block):
            for part in stmt.body:
                self.statement(part, env)
        elif isinstance(stmt, For):
            start, extent = int(self.value(stmt.start, env)), int(self.value(stmt.extent, env))
            for i in range(start, start + extent):
                self.statement(stmt.body, {**env, stmt.var.name: np.int64(i)})
        elif isinstance(stmt, If):
            chosen = stmt.then if self.value(stmt.condition, env) else stmt.orelse
            if chosen is not None:
                self.statement(chosen, env)
        elif isinstance(stmt, While):
            while self.value(stmt.condition, env):
                self.statement(stmt.body, env)
        elif isinstance(stmt, Allocate):
            self.memory[stmt.buffer] = np.zeros(stmt.buffer.shape, stmt.buffer.dtype.numpy)
            self.statement(stmt.body, env)
        elif isinstance(stmt, Store):
            self._store(stmt, env)
        elif not isinstance(stmt, Evaluate):
            raise LoweringError(f"cannot interpret {type(stmt).__name__}")

    def _store(self, stmt: Store, env: dict[str, Any]) -> None:
        self.stores += 1
        if self.stores > LIMIT:
            raise LoweringError(f"the interpreter stops after {LIMIT} stores; use smaller extents")
        index = self._index(stmt.buffer, stmt.indices, env)
        self.memory[stmt.buffer][index] = self.value(stmt.value, env)

    def _index(self, buffer: Buffer, indices: Sequence[Expr], env: dict[str, Any]) -> tuple[int, ...]:
        index = tuple(int(self.value(i, env)) for i in indices)
        if any(not 0 <= i < n for i, n in zip(index, buffer.shape, strict=True)):
            raise IndexError(f"'{buffer.name}' {buffer.shape} is accessed at {index}")
        return index

    def value(self, e: Expr, env: dict[str, Any]) -> Any:
        if isinstance(e, Const):
            return e.dtype.numpy.type(e.value)
        if isinstance(e, Var):
            return env[e.name]
        if isinstance(e, Binary):
            result = BINARY[e.op](self.value(e.a, env), self.value(e.b, env))
            return e.dtype.numpy.type(result)
        if isinstance(e, Read):
            return self.memory[e.source][self._index(e.source, e.indices, env)]
        if isinstance(e, Select):
            return self.value(e.a if self.value(e.condition, env) else e.b, env)
        if isinstance(e, Cast):
            return e.dtype.cast(self.value(e.a, env))[()]
        if isinstance(e, Call) and e.name == "bitcast":
            return np.array(self.value(e.args[0], env), e.args[0].dtype.numpy).view(e.dtype.numpy)[()]
        if isinstance(e, Call):
            return e.dtype.numpy.type(INTRINSICS[e.name](*(self.value(a, env) for a in e.args)))
        raise LoweringError(f"cannot interpret {type(e).__name__}")
