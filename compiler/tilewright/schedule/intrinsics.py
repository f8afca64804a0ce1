"""Intrinsics: what a piece of hardware or a code rule computes, declared as a tensor expression.

`tensorize` marks the loops that an intrinsic may replace, after proving that they compute the same. The loops
stay what they are, so that any code generator, and the interpreter, can run them; one with a rule uses that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.dtypes import BF16, F32, I8, I32, U8, DType
from tilewright.errors import ScheduleError
from tilewright.expr import Expr, Read, Var, cast, children, const, substitute
from tilewright.loops.affine import Bounds, Linear, linear
from tilewright.schedule.regions import Loops
from tilewright.schedule.state import StageState
from tilewright.tensor.ir import Reduce, Stage, Tensor, compute, placeholder, reduce_axis, sum_over


@dataclass(frozen=True)
class Intrinsic:
    """meaning: extents of its axes -> the tensor it computes; axes: how many, data axes first; reset: of a
    reduction, the intrinsic that sets its results to the identity first, '' where that has none.
    """

    name: str
    axes: int
    meaning: Callable[[Sequence[int]], Tensor]
    reset: str = ""


def _transposed(extents: Sequence[int]) -> Tensor:
    """y[i, j] = x[j, i]."""
    x = placeholder((extents[1], extents[0]), F32, "x")
    return compute(extents, lambda i, j: x[j, i], "y")


def _dot_pairs(extents: Sequence[int]) -> Tensor:
    """y[i] = sum over j of f32(x[j]) * f32(w[i, j]), of bf16 operands."""
    columns, depth = extents
    x, w = placeholder((depth,), BF16, "x"), placeholder((columns, depth), BF16, "w")
    j = reduce_axis(depth, "j")
    return compute((columns,), lambda i: sum_over(cast(x[j.var], F32) * cast(w[i, j.var], F32), j), "y")


def _dot_quads(extents: Sequence[int]) -> Tensor:
    """y[i] = sum over j of i32(x[j]) * i32(w[i, j]), of bytes without and with a sign."""
    columns, depth = extents
    x, w = placeholder((depth,), U8, "x"), placeholder((columns, depth), I8, "w")
    j = reduce_axis(depth, "j")
    return compute((columns,), lambda i: sum_over(cast(x[j.var], I32) * cast(w[i, j.var], I32), j), "y")


def _dot_tile(x_type: DType, w_type: DType, total: DType) -> Callable[[Sequence[int]], Tensor]:
    """y[i, j] = sum over p, q of total(x[i, n p + q]) * total(w[p, n j + q]), q in 0..n."""

    def meaning(extents: Sequence[int]) -> Tensor:
        rows, columns, groups, n = extents
        x, w = placeholder((rows, groups * n), x_type, "x"), placeholder((groups, columns * n), w_type, "w")
        p, q = reduce_axis(groups, "p"), reduce_axis(n, "q")

        def element(i: Expr, j: Expr) -> Expr:
            left, right = x[i, p.var * n + q.var], w[p.var, j * n + q.var]
            return sum_over(cast(left, total) * cast(right, total), p, q)

        return compute((rows, columns), element, "y")

    return meaning


def _zero_tile(extents: Sequence[int]) -> Tensor:
    """y[i, j] = 0."""
    return compute(extents, lambda i, j: const(0.0, F32), "y")


def _store_tile(extents: Sequence[int]) -> Tensor:
    """y[i, j] = x[i, j]."""
    x = placeholder(extents, F32, "x")
    return compute(extents, lambda i, j: x[i, j], "y")


INTRINSICS = {
    i.name: i
    for i in (
        Intrinsic("transpose", 2, _transposed),
        Intrinsic("dot_pairs", 2, _dot_pairs),
        Intrinsic("dot_quads", 2, _dot_quads),
        Intrinsic("dot_tile_pairs", 4, _dot_tile(BF16, BF16, F32), reset="zero_tile"),
        Intrinsic("dot_tile_quads", 4, _dot_tile(U8, I8, I32), reset="zero_tile"),
        Intrinsic("zero_tile", 2, _zero_tile),
        Intrinsic("store_tile", 2, _store_tile),
    )
}

# (tensor, logical indices) -> the element's flat index in memory
Flat = Callable[[Tensor, Sequence[Expr]], Expr]


def find(name: str) -> Intrinsic:
    """A declared intrinsic. Raises ScheduleError naming those that there are."""
    if name not in INTRINSICS:
        raise ScheduleError(
            f"tensorize: there is no intrinsic '{name}'; declared are {', '.join(INTRINSICS)}"
        )
    return INTRINSICS[name]


def prove(stage: StageState, nest: Loops, flat: Flat) -> None:
    """The loops from the tensorised axis inwards have the intrinsic's meaning, or ScheduleError says why not.

    The last index of every operand of the meaning must be contiguous in memory, others may have any stride.
    Indices are sums of loop variables with factors: an operand moves by so many strides of the index.
    """
    assert stage.tensorized is not None
    axis, name = stage.tensorized
    intrinsic = find(name)
    where = f"tensorize {stage.name} {axis} {name}"
    inner = stage.leaves[stage.position(axis) :]
    if len(inner) != intrinsic.axes:
        found = ", ".join(leaf.name for leaf in inner)
        raise ScheduleError(f"{where}: expected {intrinsic.axes} loops from '{axis}' inwards, found {found}")
    meaning = intrinsic.meaning([nest.extents[leaf.name] for leaf in inner]).stage
    kinds = [a.kind for a in (*meaning.axes, *meaning.reduce_axes)]
    if [leaf.kind for leaf in inner] != kinds:
        raise ScheduleError(f"{where}: expected {', '.join(kinds)} loops")
    if meaning.reduce_axes and not any(leaf.kind == "reduce" for leaf in stage.leaves[: -len(inner)]):
        raise ScheduleError(f"{where}: expected a reduce loop around '{axis}', which sums begin before")
    axes = (*meaning.axes, *meaning.reduce_axes)
    loops = {a.name: Var(leaf.name) for a, leaf in zip(axes, inner, strict=True)}
    pairs = _paired(where, stage.stage, meaning)
    outputs = zip(stage.stage.outputs, meaning.outputs, strict=True)
    for tensor, wanted in outputs:
        own = [nest.values[a.name] for a in stage.stage.axes]
        _strides(where, flat(tensor, own), [a.var for a in meaning.axes], loops, wanted.name)
    for read, wanted_read in pairs:
        indices = [substitute(i, nest.values) for i in read.indices]
        _strides(where, flat(read.source, indices), wanted_read.indices, loops, wanted_read.source.name)


def _paired(where: str, stage: Stage, meaning: Stage) -> list[tuple[Read, Read]]:
    """Reads that correspond, of bodies that are otherwise equal."""
    pairs: list[tuple[Read, Read]] = []
    for own, wanted in zip(stage.bodies, meaning.bodies, strict=False):
        if isinstance(own, Reduce) != isinstance(wanted, Reduce):
            raise ScheduleError(f"{where}: one of stage and intrinsic is a reduction, the other is not")
        if isinstance(own, Reduce) and isinstance(wanted, Reduce):
            if own.reducer != wanted.reducer:
                raise ScheduleError(f"{where}: expected a {wanted.reducer.name}, found a {own.reducer.name}")
            own, wanted = own.values[0], wanted.values[0]
        _pair(where, own, wanted, pairs)
    return pairs


def _pair(where: str, own: Expr, wanted: Expr, pairs: list[tuple[Read, Read]]) -> None:
    if isinstance(own, Read) and isinstance(wanted, Read):
        pairs.append((own, wanted))
        return
    same = type(own) is type(wanted) and getattr(own, "op", "") == getattr(wanted, "op", "")
    parts = list(zip(children(own), children(wanted), strict=False))
    if not same or not parts or len(children(own)) != len(children(wanted)):
        raise ScheduleError(
            f"{where}: the stage computes {type(own).__name__}, expected {type(wanted).__name__}"
        )
    for a, b in parts:
        _pair(where, a, b, pairs)


def _strides(where: str, index: Expr, wanted: Sequence[Expr], loops: Mapping[str, Var], operand: str) -> None:
    """The operand's memory moves with the loops as the meaning's indices do."""
    form: Linear = linear(Bounds().simplify(index))
    moves: dict[Var, tuple[int, int]] = {}  # loop -> the index that it moves, and the factor
    for position, i in enumerate(wanted):
        for atom, factor in linear(i).terms.items():
            if isinstance(atom, Var):
                moves[loops[atom.name]] = (position, factor)
    for loop in loops.values():
        stride = form.terms.get(loop, 0)
        if loop not in moves and stride:
            raise ScheduleError(f"{where}: operand {operand} must not move with loop '{loop.name}'")
        if loop in moves and not stride:
            raise ScheduleError(f"{where}: operand {operand} does not move with loop '{loop.name}'")
    steps = {len(wanted) - 1: 1}  # index -> the stride of its dimension in memory
    for loop, (position, factor) in moves.items():
        found = form.terms[loop]
        step = steps.setdefault(position, found // factor)
        if found != step * factor:
            kind = "contiguous" if factor == 1 else f"in steps of {step * factor}"
            raise ScheduleError(
                f"{where}: operand {operand} must be {kind} along '{loop.name}', found stride {found}"
            )
