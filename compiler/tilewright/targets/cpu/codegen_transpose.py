"""Copies that turn rows into columns: whole vectors loaded, shuffled in registers, whole vectors stored.

    tensorized(transpose) for a in 0..R:   R, L <= 16
      vectorized for b in 0..L:            x contiguous in a, y contiguous in b
        y[.., a, b] = x[.., b, a]

Element by element this gathers L elements for every vector; here it is L loads, N log2 N shuffles (N the
power of two that holds both) and R stores.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.expr import Const, Expr, Read, Var, free_vars
from tilewright.loops.affine import Linear
from tilewright.loops.ir import Buffer, For, LoopKind, Store
from tilewright.targets.cpu.codegen_address import Evaluate, element_pointer, flat_index
from tilewright.targets.cpu.codegen_builder import Function
from tilewright.targets.cpu.codegen_context import Context, Pointer
from tilewright.targets.cpu.codegen_types import memory_type, vector_type

LARGEST = 16


@dataclass(frozen=True)
class Transposition:
    """rows: vectors to load, `row_step` elements apart, of `columns` elements; stored `column_step` apart.

    source, target: the element indices of the first element, free of both loop variables.
    """

    source_buffer: Buffer
    target_buffer: Buffer
    source: Linear
    target: Linear
    rows: int
    columns: int
    row_step: int
    column_step: int


def rule(context: Context, loop: For, evaluate: Evaluate) -> bool:
    """Writes the loop nest as a transposition between two buffers in memory, when it is one."""
    found = match(loop) if context.vector is None and context.mask is None else None
    if found is None:
        return False
    places = (context.place(found.source_buffer), context.place(found.target_buffer))
    if not all(isinstance(place, Pointer) for place in places):
        return False
    _write(context, found, evaluate)
    return True


def match(loop: For) -> Transposition | None:
    """The transposition that a loop nest is, or None."""
    inner = loop.body
    if loop.kind != LoopKind.SERIAL or not isinstance(inner, For) or inner.kind != LoopKind.VECTORIZED:
        return None
    copy = inner.body
    if not isinstance(copy, Store) or not isinstance(copy.value, Read):
        return None
    columns, rows = loop.extent, inner.extent
    if (
        not isinstance(columns, Const)
        or not isinstance(rows, Const)
        or loop.start != Const(0, loop.var.dtype)
    ):
        return None
    if not (2 <= columns.value <= LARGEST and 2 <= rows.value <= LARGEST):
        return None
    source_buffer, target_buffer = copy.value.source, copy.buffer
    if source_buffer.dtype != target_buffer.dtype or source_buffer == target_buffer:
        return None
    source = flat_index(source_buffer, copy.value.indices)
    target = flat_index(target_buffer, copy.indices)
    along, across = source.terms.get(loop.var), source.terms.get(inner.var)
    apart, next_to = target.terms.get(loop.var), target.terms.get(inner.var)
    if along != 1 or next_to != 1 or not across or not apart or across == 1:
        return None
    variables = (loop.var, inner.var)
    first = _without(source, variables), _without(target, variables)
    if any(_mentions(atom, variables) for form in first for atom in form.terms):
        return None
    return Transposition(
        source_buffer, target_buffer, *first, int(rows.value), int(columns.value), across, apart
    )


def _write(context: Context, found: Transposition, evaluate: Evaluate) -> None:
    """Code of a transposition between two buffers in memory."""
    function = context.function
    source, target = context.place(found.source_buffer), context.place(found.target_buffer)
    assert isinstance(source, Pointer)
    assert isinstance(target, Pointer)
    size, element = found.source_buffer.dtype.bytes, memory_type(found.source_buffer.dtype)
    width = 1 << (max(found.rows, found.columns) - 1).bit_length()
    whole = vector_type(element, width)
    base = found.source.times(size)
    vectors = []
    for row in range(found.rows):
        pointer = element_pointer(context, source, base, evaluate, row * found.row_step * size)
        loaded = vector_type(element, found.columns)
        ref = function.op(f"load {loaded}, ptr {pointer}, align {size}")
        vectors.append(function.resized(loaded, ref, found.columns, width))
    # Rows that are missing repeat the first: of undefined ones LLVM 22 makes patterns that it cannot select.
    vectors += vectors[:1] * (width - found.rows)
    vectors = transposed(function, whole, vectors)
    stored = vector_type(element, found.rows)
    base = found.target.times(size)
    for column in range(found.columns):
        pointer = element_pointer(context, target, base, evaluate, column * found.column_step * size)
        ref = function.resized(whole, vectors[column], width, found.rows)
        function.emit(f"store {stored} {ref}, ptr {pointer}, align {size}")


def transposed(function: Function, type_text: str, rows: list[str]) -> list[str]:
    """The columns of a square of vectors: log2 N rounds, each interleaving the first half with the second."""
    width = len(rows)
    half = width // 2
    orders = []
    for start in (0, half):
        order = [start + lane // 2 + (lane % 2) * width for lane in range(width)]
        orders.append(", ".join(f"i32 {lane}" for lane in order))
    for _ in range(width.bit_length() - 1):
        mixed = []
        for first, second in zip(rows[:half], rows[half:], strict=True):
            for lanes in orders:
                operands = f"{type_text} {first}, {type_text} {second}"
                mixed.append(function.op(f"shufflevector {operands}, <{width} x i32> <{lanes}>"))
        rows = mixed
    return rows


def _without(form: Linear, variables: tuple[Var, ...]) -> Linear:
    return Linear({a: c for a, c in form.terms.items() if a not in variables}, form.constant)


def _mentions(atom: Expr, variables: tuple[Var, ...]) -> bool:
    return bool(free_vars(atom) & {v.name for v in variables})
