"""How operators write loop programs: parameters in the order of the operands, flat buffers, named loops.

Buffers are flat: an element's index is its row-major position, so that one loop program serves every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tilewright.dtypes import I64, DType
from tilewright.expr import Expr, ExprLike, Var, add, const, mul, read, wrap
from tilewright.loops.ir import Allocate, Buffer, For, Kernel, LoopKind, Role, Stmt, Store
from tilewright.types import TensorType

# A fork-join costs some microseconds: fewer elements than this run on one thread.
PARALLEL_ELEMENTS = 1 << 14

Body = Callable[[Sequence[Buffer | None], Sequence[Buffer]], Stmt]


def loop_program(
    name: str, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], body: Body
) -> Kernel:
    """The kernel whose parameters are the present operands, then the results."""
    given = [
        None if type is None else Buffer(f"x{i}", type.dtype, (type.size,)) for i, type in enumerate(inputs)
    ]
    results = [Buffer(f"y{i}", type.dtype, (type.size,)) for i, type in enumerate(outputs)]
    present = [buffer for buffer in given if buffer is not None]
    roles = (*(Role.IN for _ in present), *(Role.OUT for _ in results))
    return Kernel(name, (*present, *results), roles, body(given, results))


def loop(name: str, extent: ExprLike, body: Callable[[Var], Stmt], parallel: bool = False) -> For:
    """`for name in [0, extent)`."""
    kind = LoopKind.PARALLEL if parallel else LoopKind.SERIAL
    return For(Var(name), wrap(extent), body(Var(name)), kind)


def nest(
    prefix: str, shape: Sequence[int], body: Callable[[Sequence[Expr]], Stmt], parallel: int | None = None
) -> Stmt:
    """One loop an axis, the first outermost; parallel: the axis whose loop is shared among threads."""
    variables = [Var(f"{prefix}{axis}") for axis in range(len(shape))]
    stmt = body(variables)
    for axis in reversed(range(len(shape))):
        kind = LoopKind.PARALLEL if axis == parallel else LoopKind.SERIAL
        stmt = For(variables[axis], const(shape[axis]), stmt, kind)
    return stmt


def flat(shape: Sequence[int], indices: Sequence[Expr]) -> Expr:
    """The row-major position of an element."""
    position: Expr = const(0)
    for extent, index in zip(shape, indices, strict=True):
        position = add(mul(position, const(extent)), index)
    return position


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """How many elements stand before an axis, along it, and behind it."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def copied(target: Buffer, source: Buffer) -> Stmt:
    """`target = source`, element by element."""
    size = source.size
    return loop("c", size, lambda c: store(target, c, read(source, [c])), size >= PARALLEL_ELEMENTS)


def cell(name: str, dtype: DType = I64) -> Buffer:
    """A scalar variable; `with_cells` allocates it, `get` and `put` use it."""
    return Buffer(name, dtype, (1,), "register")


def with_cells(cells: Sequence[Buffer], body: Stmt) -> Stmt:
    """The body with scalar variables of its own."""
    for variable in reversed(cells):
        body = Allocate(variable, body)
    return body


def get(variable: Buffer) -> Expr:
    return read(variable, [0])


def put(variable: Buffer, value: ExprLike) -> Store:
    return store(variable, const(0), wrap(value, variable.dtype))


def store(target: Buffer, index: Expr, value: Expr) -> Store:
    """`target[index] = value`."""
    return Store(target, (index,), value)
