"""Einsum over labelled axes: one sum of products. The front end resolves ellipses and implicit results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, cast, const, mul, read
from tilewright.ops.declaration import NUMBERS, operator, present, required, same_dtype, wide
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.reading import accumulated
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType


def _terms(attrs: Attrs) -> tuple[list[str], str]:
    """Labels of every operand, and of the result."""
    left, _, right = attrs["equation"].partition("->")
    return left.split(","), right


def _extents(terms: Sequence[str], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The extent of every label; an extent of 1 is broadcast. Raises VerifyError."""
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            known = extents.setdefault(label, n)
            if n != known and 1 not in (n, known):
                raise VerifyError(f"Einsum: label '{label}' has extents {known} and {n}")
            extents[label] = n if known == 1 else known
    return extents


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    operands = present(types)
    same_dtype("Einsum", operands)
    terms, result = _terms(attrs)
    if len(terms) != len(operands):
        raise VerifyError(f"Einsum: equation has {len(terms)} terms for {len(operands)} operands")
    for term, type in zip(terms, operands, strict=True):
        if len(term) != type.rank or not (term.isalpha() or not term):
            raise VerifyError(f"Einsum: term '{term}' does not fit a tensor of rank {type.rank}")
    extents = _extents(terms, [type.shape for type in operands])
    wrong = [label for label in result if label not in extents or result.count(label) > 1]
    if wrong:
        raise VerifyError(f"Einsum: label '{wrong[0]}' of the result is unknown or repeated")
    return (TensorType(operands[0].dtype, tuple(extents[label] for label in result)),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    operands = present(arrays)
    dtype = operands[0].dtype
    work = wide(dtype)
    terms, result = _terms(attrs)
    extents = _extents(terms, [a.shape for a in operands])
    parts = []
    for term, array in zip(terms, operands, strict=True):
        shape = tuple(extents[label] for label in term)
        parts.append(np.broadcast_to(array, shape).astype(work, copy=False))
    with np.errstate(all="ignore"):
        total = np.einsum(f"{','.join(terms)}->{result}", *parts)
    return (np.asarray(total).astype(dtype, copy=False),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    operands = present(tensors)
    terms, result = _terms(attrs)
    extents = _extents(terms, [t.shape for t in operands])
    summed = [label for label in extents if label not in result]
    axes = {label: reduce_axis(extents[label], f"einsum.{label}") for label in summed}

    def element(*i: Expr) -> Expr:
        where: dict[str, Expr] = dict(zip(result, i, strict=True))
        where |= {label: axis.var for label, axis in axes.items()}
        value: Expr | None = None
        for term, tensor in zip(terms, operands, strict=True):
            pairs = zip(term, tensor.shape, strict=True)
            indices = [const(0) if n == 1 else where[label] for label, n in pairs]
            factor = accumulated(read(tensor, indices))
            value = factor if value is None else mul(value, factor)
        assert value is not None
        return sum_over(value, *axes.values()) if axes else value

    total = compute(types[0].shape, element, "einsum")
    dtype = required(tensors, 0).dtype
    if total.dtype == dtype:
        return (total,)
    return (compute(types[0].shape, lambda *i: cast(read(total, i), dtype), "einsum_out"),)


operator(
    "Einsum",
    "sum of products over the labels that the result lacks; repeated labels take a diagonal",
    [Operand("x", NUMBERS, variadic=True)],
    [Operand("y", NUMBERS)],
    _infer,
    _evaluate,
    {"equation": Attr("str", required=True)},
    Fusion.COMPLEX,
    compute=_compute,
)
