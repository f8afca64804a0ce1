"""Tensor expressions (TVM paper section 4.1): what each element of a tensor is, without any loop order.

n = placeholder((64, 32), F32, "a")
k = reduce_axis(32, "k")
c = compute((64, 48), lambda i, j: sum_over(a[i, k] * b[k, j], k), "c")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from tilewright.dtypes import F64, I64, DType
from tilewright.errors import LoweringError
from tilewright.expr import (
    Expr,
    ExprLike,
    Read,
    Var,
    add,
    const,
    maximum,
    minimum,
    mul,
    read,
    reads_of,
    rewrite,
    wrap,
)


@dataclass(frozen=True)
class Axis:
    """An iteration axis [0, extent). kind: `data` or `reduce`."""

    name: str
    extent: int
    kind: str = "data"

    @property
    def var(self) -> Var:
        return Var(self.name, I64)


@dataclass(frozen=True)
class Reducer:
    """A commutative reduction over a tuple of values.

    combine: (accumulators, values) -> new accumulators; identities: dtype -> initial value, one an
    accumulator.
    """

    name: str
    combine: Callable[[tuple[Expr, ...], tuple[Expr, ...]], tuple[Expr, ...]] = field(compare=False)
    identities: tuple[Callable[[DType], ExprLike], ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """Reduction of `values` over `axes`; this node stands for accumulator `index`. Only the root of a
    stage's body.
    """

    reducer: Reducer
    values: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    index: int
    dtype: DType


def _lowest(dtype: DType) -> ExprLike:
    return -inf if dtype.is_float else 0 if dtype.kind in ("uint", "bool") else -(2 ** (dtype.bits - 1))


def _highest(dtype: DType) -> ExprLike:
    unsigned = dtype.kind == "uint"
    return inf if dtype.is_float else 1 if dtype.kind == "bool" else 2 ** (dtype.bits - (not unsigned)) - 1


SUM = Reducer("sum", lambda acc, new: (add(acc[0], new[0]),), (lambda _: 0,))
PROD = Reducer("prod", lambda acc, new: (mul(acc[0], new[0]),), (lambda _: 1,))
MAX = Reducer("max", lambda acc, new: (maximum(acc[0], new[0]),), (_lowest,))
MIN = Reducer("min", lambda acc, new: (minimum(acc[0], new[0]),), (_highest,))


@dataclass(eq=False)
class Stage:
    """One computation: an element of each output at `axes` is the corresponding body. A placeholder has no
    bodies.
    """

    name: str
    axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    dtypes: tuple[DType, ...]
    outputs: tuple[Tensor, ...] = ()

    @property
    def is_placeholder(self) -> bool:
        return not self.bodies

    @property
    def reduce_axes(self) -> tuple[Axis, ...]:
        first = self.bodies[0] if self.bodies else None
        return first.axes if isinstance(first, Reduce) else ()

    @property
    def inputs(self) -> list[Tensor]:
        """Tensors read by the bodies, in order of first use."""
        found: dict[int, Tensor] = {}
        for body in self.bodies:
            values = body.values if isinstance(body, Reduce) else (body,)
            for value in values:
                for r in reads_of(value):
                    found.setdefault(id(r.source), r.source)
        return list(found.values())


@dataclass(eq=False)
class Tensor:
    """Output `index` of a stage; indexing it gives a read."""

    stage: Stage = field(repr=False)
    index: int = 0

    @property
    def name(self) -> str:
        return self.stage.name if len(self.stage.dtypes) == 1 else f"{self.stage.name}.{self.index}"

    @property
    def dtype(self) -> DType:
        return self.stage.dtypes[self.index]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.extent for axis in self.stage.axes)

    def __getitem__(self, indices: ExprLike | Axis | tuple[ExprLike | Axis, ...]) -> Expr:
        parts = indices if isinstance(indices, tuple) else (indices,)
        if len(parts) != len(self.shape):
            raise LoweringError(
                f"tensor '{self.name}' has rank {len(self.shape)} but is read with {len(parts)} indices"
            )
        return read(self, [p.var if isinstance(p, Axis) else p for p in parts])


def placeholder(shape: Sequence[int], dtype: DType, name: str) -> Tensor:
    """An input tensor."""
    axes = tuple(Axis(f"{name}.{i}", n) for i, n in enumerate(shape))
    stage = Stage(name, axes, (), (dtype,))
    stage.outputs = (Tensor(stage),)
    return stage.outputs[0]


def reduce_axis(extent: int, name: str) -> Axis:
    """An axis that a reducer runs over."""
    return Axis(name, extent, "reduce")


def compute(
    shape: Sequence[int], body: Callable[..., ExprLike], name: str, dtype: DType | None = None
) -> Tensor:
    """The tensor whose element at (i, j, ...) is body(i, j, ...), with one output.

    Its axes are called `name.i0`, `name.i1`, ...
    """
    return compute_many(shape, lambda *axes: (body(*axes),), name, dtype)[0]


def compute_many(
    shape: Sequence[int], body: Callable[..., tuple[ExprLike, ...]], name: str, dtype: DType | None = None
) -> tuple[Tensor, ...]:
    """Several tensors of one shape, computed together."""
    axes = tuple(Axis(f"{name}.i{i}", n) for i, n in enumerate(shape))
    bodies = tuple(wrap(b, dtype or F64) for b in body(*(axis.var for axis in axes)))
    stage = Stage(name, axes, bodies, tuple(b.dtype for b in bodies))
    stage.outputs = tuple(Tensor(stage, i) for i in range(len(bodies)))
    return stage.outputs


def reduce(reducer: Reducer, values: Sequence[Expr], axes: Sequence[Axis]) -> tuple[Expr, ...]:
    """All accumulators of a reduction."""
    return tuple(Reduce(reducer, tuple(values), tuple(axes), i, v.dtype) for i, v in enumerate(values))


def sum_over(value: Expr, *axes: Axis) -> Expr:
    return reduce(SUM, [value], axes)[0]


def prod_over(value: Expr, *axes: Axis) -> Expr:
    return reduce(PROD, [value], axes)[0]


def max_over(value: Expr, *axes: Axis) -> Expr:
    return reduce(MAX, [value], axes)[0]


def min_over(value: Expr, *axes: Axis) -> Expr:
    return reduce(MIN, [value], axes)[0]


def identity_of(reduction: Reduce) -> Expr:
    """The initial value of the accumulator that a Reduce node stands for."""
    return const(reduction.reducer.identities[reduction.index](reduction.dtype), reduction.dtype)  # type: ignore[arg-type]


def stages_of(outputs: Sequence[Tensor]) -> list[Stage]:
    """All stages that the outputs need, producers first, placeholders included."""
    ordered: dict[int, Stage] = {}

    def visit(stage: Stage) -> None:
        if id(stage) in ordered:
            return
        for tensor in stage.inputs:
            visit(tensor.stage)
        ordered[id(stage)] = stage

    for tensor in outputs:
        visit(tensor.stage)
    return list(ordered.values())


def in_step(read: Read, stage: Stage) -> bool:
    """Whether a stage reads a tensor of its own shape at its own index; on an axis of one element 0 is
    that.
    """
    if read.source.shape != tuple(axis.extent for axis in stage.axes):
        return False
    pairs = zip(read.indices, stage.axes, strict=True)
    return all(index == axis.var or (axis.extent == 1 and index == const(0)) for index, axis in pairs)


def map_reads(e: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """`rewrite` that also descends into the values of a Reduce."""
    if isinstance(e, Reduce):
        return Reduce(e.reducer, tuple(rewrite(v, rule) for v in e.values), e.axes, e.index, e.dtype)
    return rewrite(e, rule)
