"""Sizes that depend on data: Cut and Uncut, and which operators may see such a size.

An operator whose result has a size that depends on data writes it at its bound, beside the count, a scalar in
memory. Cut makes the two a tensor with a Bounded extent. Whatever else reads it computes all of the memory,
also what lies beyond the count; therefore only operators whose elements never depend on such a neighbour
accept it, and all others refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.dtypes import I64
from tilewright.errors import RunError, VerifyError
from tilewright.expr import Expr, read
from tilewright.graph.ir import Attribute, Function, Value
from tilewright.ops.operator import Attrs, Fusion
from tilewright.tensor.ir import Tensor, compute
from tilewright.types import Bounded, TensorType

Types = Sequence[TensorType | None]
Shape = tuple[int, ...]
Rule = Callable[[Types, Attrs, Sequence[TensorType]], list[Shape]]

_BY_ELEMENT = frozenset({"Clip"})  # element by element, though its declaration is a composition
_DIVISIONS = frozenset({"Div", "Mod"})


def bounded_results(
    name: str, fusion: Fusion, types: Types, attrs: Attrs, results: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    """The result types of an operator some of whose extents are Bounded, from those at the bound.

    Raises VerifyError where the operator's meaning depends on the true size in a way that is not supported.
    """
    rule = _RULES.get(name)
    if rule is None and (name in _BY_ELEMENT or fusion in (Fusion.ELEMENTWISE, Fusion.BROADCAST)):
        _check_division(name, types)
        rule = _broadcast
    if rule is None:
        found = next((t for t in (*types, *results) if t is not None and t.is_bounded), None)
        raise VerifyError(f"{name}: a size that depends on data ({found}) is not supported here")
    try:
        shapes = rule(types, attrs, results)
    except VerifyError as error:
        raise VerifyError(f"{name}: {error}") from error
    return tuple(TensorType(t.dtype, shape, t.storage) for t, shape in zip(results, shapes, strict=True))


def count_of(function: Function, extent: Bounded) -> Value | None:
    """The scalar that holds the count of an extent; None when another function made it."""
    for node in function.nodes:
        if node.op == "Cut" and node.attrs["count"] == extent.name:
            return node.operand(1)
    return None


def true_attributes(types: Types, arrays: Sequence[np.ndarray | None], attrs: Attrs) -> Attrs:
    """The attributes with the sizes that the operands have in this run in the place of Bounded extents."""
    sizes = {
        extent: size
        for type, array in zip(types, arrays, strict=True)
        if type is not None and array is not None
        for extent, size in zip(type.shape, array.shape, strict=True)
        if isinstance(extent, Bounded)
    }
    if not sizes:
        return attrs
    return {key: _replaced(value, sizes) for key, value in attrs.items()}


def at_bounds(attrs: Attrs) -> dict[str, Attribute]:
    """The attributes with the bounds of Bounded extents."""
    return {key: _replaced(value, {}) for key, value in attrs.items()}


def _replaced(value: Attribute, sizes: Mapping[Bounded, int]) -> Attribute:
    if isinstance(value, tuple | list):
        return tuple(_replaced(part, sizes) for part in value)
    return sizes.get(value, int(value)) if isinstance(value, Bounded) else value


def _refusal(extent: int, what: str) -> VerifyError:
    return VerifyError(f"the size {extent}, which depends on data, cannot be {what}")


def _check_division(name: str, types: Types) -> None:
    """Beyond the count anything may lie, also a divisor that the processor refuses."""
    divisor = types[1] if name in _DIVISIONS and len(types) > 1 else None
    if divisor is not None and divisor.is_bounded and divisor.dtype.is_integer:
        raise VerifyError(f"{name}: integer divisors of a size that depends on data are not supported")


def _given(types: Types) -> list[TensorType]:
    return [type for type in types if type is not None]


def _broadcast(types: Types, _: Attrs, results: Sequence[TensorType]) -> list[Shape]:
    rank = results[0].rank
    shape: list[int] = []
    for axis in range(rank):
        extents = {t.shape[axis - rank + t.rank] for t in _given(types) if axis - rank + t.rank >= 0} - {1}
        bounded = any(isinstance(extent, Bounded) for extent in extents)
        if bounded and len(extents) > 1:
            raise VerifyError(f"whether the sizes {' and '.join(map(str, extents))} agree depends on data")
        shape.append(extents.pop() if bounded else results[0].shape[axis])
    return [tuple(shape)] * len(results)


def _transpose(types: Types, attrs: Attrs, _: Sequence[TensorType]) -> list[Shape]:
    (x,) = _given(types)
    return [tuple(x.shape[axis] for axis in attrs["perm"])]


def _gather(types: Types, attrs: Attrs, _: Sequence[TensorType]) -> list[Shape]:
    x, indices = _given(types)
    axis = attrs["axis"]
    if isinstance(x.shape[axis], Bounded):
        raise _refusal(x.shape[axis], "gathered from")
    return [(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])]


def _gather_tuples(types: Types, attrs: Attrs, results: Sequence[TensorType]) -> list[Shape]:
    x, indices = _given(types)
    if x.is_bounded or attrs["batch_dims"] or isinstance(indices.shape[-1], Bounded):
        raise VerifyError(f"operands {x} and {indices} are not supported")
    return [(*indices.shape[:-1], *x.shape[indices.shape[-1] :])]


def _slice(types: Types, attrs: Attrs, results: Sequence[TensorType]) -> list[Shape]:
    (x,) = _given(types)
    shape = list(results[0].shape)
    ranges = zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True)
    for axis, start, end, step in ranges:
        extent = x.shape[axis]
        if isinstance(extent, Bounded):
            if (start, end, step) != (0, extent, 1):
                raise _refusal(extent, "cut further")
            shape[axis] = extent
    return [tuple(shape)]


def _concat(types: Types, attrs: Attrs, results: Sequence[TensorType]) -> list[Shape]:
    given, axis = _given(types), attrs["axis"]
    if any(isinstance(t.shape[axis], Bounded) for t in given):
        raise VerifyError(f"axis {axis}, whose size depends on data, cannot be concatenated along")
    rest = {t.shape[:axis] + t.shape[axis + 1 :] for t in given}
    if len(rest) > 1:
        raise VerifyError(f"whether {' and '.join(map(str, given))} agree depends on data")
    return [(*given[0].shape[:axis], results[0].shape[axis], *given[0].shape[axis + 1 :])]


def _reshape(types: Types, attrs: Attrs, _: Sequence[TensorType]) -> list[Shape]:
    """Every bounded axis stays an axis, with as many elements before and behind it in each step."""
    (x,) = _given(types)
    target = tuple(attrs["shape"])
    if _places(x.shape) != _places(target):
        raise VerifyError(f"{x} cannot take the shape [{', '.join(map(str, target))}]")
    return [target]


def _places(shape: Shape) -> list[int]:
    """Bounded extents, and between them the number of elements that the other axes hold."""
    found: list[int] = [1]
    for extent in shape:
        if isinstance(extent, Bounded):
            found += [extent, 1]
        else:
            found[-1] *= extent
    return found


def _reduce(types: Types, attrs: Attrs, results: Sequence[TensorType]) -> list[Shape]:
    x, axes = _given(types)[0], attrs["axes"]
    for axis in axes:
        if isinstance(x.shape[axis], Bounded):
            raise _refusal(x.shape[axis], "reduced")
    kept = attrs["keepdims"]
    return [tuple(1 if a in axes else d for a, d in enumerate(x.shape) if kept or a not in axes)]


def _along_rows(types: Types, attrs: Attrs, _: Sequence[TensorType]) -> list[Shape]:
    x = _given(types)[0]
    if isinstance(x.shape[attrs["axis"]], Bounded):
        raise _refusal(x.shape[attrs["axis"]], "normalised")
    return [x.shape]


def _cut(types: Types, attrs: Attrs, results: Sequence[TensorType]) -> list[Shape]:
    x, axis = _given(types)[0], attrs["axis"]
    if isinstance(x.shape[axis], Bounded):
        raise _refusal(x.shape[axis], "cut again")
    return [(*x.shape[:axis], Bounded(x.shape[axis], attrs["count"]), *x.shape[axis + 1 :])]


def _uncut(types: Types, attrs: Attrs, results: Sequence[TensorType]) -> list[Shape]:
    return [results[0].shape]


_RULES: dict[str, Rule] = {
    "Concat": _concat,
    "Cut": _cut,
    "Gather": _gather,
    "GatherND": _gather_tuples,
    "LogSoftmax": _along_rows,
    "Reshape": _reshape,
    "Slice": _slice,
    "Softmax": _along_rows,
    "Transpose": _transpose,
    "Uncut": _uncut,
    **{f"Reduce{kind}": _reduce for kind in ("Sum", "Mean", "Max", "Min", "Prod")},
}


def cut_types(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    """Cut at the bound: the operand's type; `bounded_results` makes the axis Bounded."""
    x, count = _given(types)
    if not 0 <= attrs["axis"] < x.rank or count != TensorType(I64, ()):
        raise VerifyError(f"Cut: axis {attrs['axis']} of {x} by a count of type {count}, expected i64[]")
    return (TensorType(x.dtype, x.shape),)


def cut_array(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    """The first `count` elements of the axis."""
    x, count = arrays
    assert x is not None
    assert count is not None
    if not 0 <= int(count) <= x.shape[attrs["axis"]]:
        raise RunError(f"Cut: a count of {int(count)} where {x.shape[attrs['axis']]} is the bound")
    return (x[(*(slice(None),) * attrs["axis"], slice(int(count)))],)


def uncut_types(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    """Uncut: the shape at the bound."""
    (x,) = _given(types)
    if tuple(map(int, x.shape)) != tuple(attrs["shape"]):
        raise VerifyError(f"Uncut: {x} is not bounded by {list(attrs['shape'])}")
    return (TensorType(x.dtype, tuple(attrs["shape"])),)


def uncut_array(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    """Zeros beyond the array."""
    (x,) = arrays
    assert x is not None
    whole = np.zeros(attrs["shape"], x.dtype)
    whole[tuple(map(slice, x.shape))] = x
    return (whole,)


def same_memory(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """Cut and Uncut as an expression: a copy; in a program they are no more than another name."""
    x = tensors[0]
    assert x is not None

    def element(*i: Expr) -> Expr:
        return read(x, list(i))

    return (compute(x.shape, element, "cut"),)
