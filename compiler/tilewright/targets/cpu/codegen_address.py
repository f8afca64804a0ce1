"""Addresses of buffer elements, split by loop depth so that each part is computed where it changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.dtypes import I64
from tilewright.errors import CodegenError
from tilewright.expr import Binary, Const, Expr, Var
from tilewright.loops.affine import Linear, linear
from tilewright.loops.ir import Buffer
from tilewright.targets.cpu import codegen_arithmetic as arithmetic
from tilewright.targets.cpu.codegen_context import Context, Pointer
from tilewright.targets.cpu.codegen_types import Value, literal

Evaluate = Callable[[Context, Expr], Value]


@dataclass(frozen=True)
class Location:
    """A place in a buffer, in bytes: base is free of the vector variable, which adds `step` a lane.

    step is None when the offset is not linear in the vector variable; `offset` is then the expression of the
    element index.
    """

    base: Linear
    step: int | None
    offset: Expr


def flat_index(buffer: Buffer, indices: Sequence[Expr]) -> Linear:
    """The element index, row-major."""
    if len(indices) != len(buffer.shape):
        raise CodegenError(
            f"buffer '{buffer.name}' has rank {len(buffer.shape)}, indexed with {len(indices)} indices"
        )
    form = Linear()
    for index, extent in zip(indices, buffer.shape, strict=True):
        form = form.times(extent).plus(linear(index))
    return form


def locate(context: Context, buffer: Buffer, indices: Sequence[Expr]) -> Location:
    """Where an access goes, seen from the vector loop around it."""
    form = flat_index(buffer, indices)
    lane = [atom for atom in form.terms if context.is_lane(atom)]
    step = form.terms[lane[0]] * buffer.dtype.bytes if lane else 0
    rest = Linear({a: c for a, c in form.terms.items() if a not in lane}, form.constant)
    offset = _expression(form)
    if any(context.varies(atom) for atom in rest.terms):
        return Location(Linear(), None, offset)
    return Location(rest.times(buffer.dtype.bytes), step, offset)


def _expression(form: Linear) -> Expr:
    result: Expr = Const(form.constant, I64)
    for atom, factor in form.terms.items():
        scaled = atom if factor == 1 else Binary("mul", atom, Const(factor, I64), I64)
        result = Binary("add", result, scaled, I64)
    return result


def element_pointer(
    context: Context, place: Pointer, base: Linear, evaluate: Evaluate, extra: int = 0
) -> str:
    """A pointer `base` + `extra` bytes into the place, from outer to inner loops and constants last."""
    function = context.function
    by_depth: dict[int, list[tuple[Expr, int]]] = {}
    here: list[tuple[Expr, int]] = []
    for atom, factor in base.terms.items():
        depth = context.depth(atom)
        (here if depth is None else by_depth.setdefault(depth, [])).append((atom, factor))
    pointer = place.ref
    for depth in sorted(by_depth):
        for atom, factor in by_depth[depth]:
            pointer = _advanced(context, depth, pointer, atom, factor)
    for atom, factor in here:
        step = function.op(f"mul nsw i64 {evaluate(context, atom).ref}, {factor}")
        pointer = function.op(f"getelementptr i8, ptr {pointer}, i64 {step}")
    constant = base.constant + extra
    return function.op(f"getelementptr i8, ptr {pointer}, i64 {constant}") if constant else pointer


def _advanced(context: Context, depth: int, pointer: str, atom: Expr, factor: int) -> str:
    function = context.function
    value = scalar_index(context, atom)
    scaled = value
    if factor != 1:
        scaled = function.hoisted(depth, ("scaled", value, factor), lambda: f"mul nsw i64 {value}, {factor}")
    return function.hoisted(
        depth, ("pointer", pointer, scaled), lambda: f"getelementptr i8, ptr {pointer}, i64 {scaled}"
    )


def scalar_index(context: Context, e: Expr) -> str:
    """The operand of an i64 expression over loop variables, hoisted as far out as it can go."""
    if isinstance(e, Const):
        return literal(e.value, e.dtype).ref
    if isinstance(e, Var):
        return context.binding(e.name).value.ref
    depth = context.depth(e)
    if depth is None or not isinstance(e, Binary):
        raise CodegenError(f"index expression {e} depends on memory or lanes where neither may be")
    known = context.function.scopes[depth].known
    a, b = scalar_index(context, e.a), scalar_index(context, e.b)
    key = (e.op, e.a.dtype, a, b)
    if key not in known:
        known[key] = _at_head(context, depth, e, a, b)
    return known[key]


def _at_head(context: Context, depth: int, e: Binary, a: str, b: str) -> str:
    """Writes the operator into the head of a scope: all lines that it takes."""
    function = context.function
    outer, function.lines = function.lines, function.scopes[depth].head
    try:
        left, right = Value(a, e.a.dtype), Value(b, e.b.dtype)
        if e.op in ("floordiv", "mod", "div"):
            positive = context.bounds.of(e.a)[0] >= 0 and context.bounds.of(e.b)[0] > 0
            return arithmetic.divide(function, e.op, left, right, positive).ref
        return arithmetic.binary(function, e.op, left, right).ref
    finally:
        function.lines = outer
