"""Reference meaning of loop programs: run them element by element, for small extents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import LoweringError
from tilewright.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from tilewright.loops.ir import Allocate, Block, Buffer, Evaluate, For, If, Kernel, Stmt, Store, While

LIMIT = 1_000_000

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "erf": math.erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    "pow": np.power,
    "fmod": np.fmod,
    "trunc": np.trunc,
    "abs": np.abs,
    "isnan": np.isnan,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fma": lambda a, b, c: a * b + c,
    "within": lambda position, extent: np.clip(position, 0, extent - 1),
}


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
            result = _BINARY[e.op](self.value(e.a, env), self.value(e.b, env))
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
            return e.dtype.numpy.type(_CALLS[e.name](*(self.value(a, env) for a in e.args)))
        raise LoweringError(f"cannot interpret {type(e).__name__}")
