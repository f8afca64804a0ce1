"""Small nodes of Einsum, Det and the losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from case import HALVES, Case, loose, normal, whole

EQUATIONS = {
    "ij->ji": [(3, 4)],
    "ij->": [(3, 4)],
    "ij->i": [(3, 4)],
    "ii->i": [(3, 3)],
    "ii->": [(3, 3)],
    "bii->bi": [(2, 3, 3)],
    "ij,jk->ik": [(3, 4), (4, 5)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bij,bjk->bki": [(2, 3, 4), (1, 4, 5)],
    "i,j->ij": [(3,), (4,)],
    "i,i->": [(3,), (3,)],
    "abc,cde->abde": [(2, 3, 4), (4, 2, 3)],
    "ijk,k->ij": [(2, 3, 4), (4,)],
    "iji,jj->i": [(3, 2, 3), (2, 2)],
    ",->": [(), ()],
    "->": [()],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 2)],
    "iA,Aj->ij": [(2, 3), (3, 2)],
}


def product_and_loss_cases() -> Iterator[Case]:
    for equation, shapes in EQUATIONS.items():
        attrs = {"equation": equation}
        yield Case("Einsum", [normal(*s, seed=i) for i, s in enumerate(shapes)], attrs, atol=1e-5)
        yield Case("Einsum", [whole(*s, seed=i) for i, s in enumerate(shapes)], attrs)
    attrs = {"equation": "ij,jk->ik"}
    for dtype in HALVES:
        operands = [normal(3, 4, dtype=dtype), normal(4, 2, dtype=dtype)]
        yield Case("Einsum", list(operands), attrs, **loose(dtype))
    yield Case("Einsum", [whole(3, 4, dtype=np.int8), whole(4, 2, dtype=np.int8)], attrs)
    yield Case("Einsum", [normal(3, 0), normal(0, 2)], attrs)
    yield from _determinants()
    yield from _losses()


def _determinants() -> Iterator[Case]:
    for shape in ((2, 2), (3, 4, 4), (2, 2, 1, 1), (5, 5), (0, 3, 3), (2, 0, 0)):
        yield Case("Det", [normal(*shape)], rtol=1e-4, atol=1e-5)
        yield Case("Det", [normal(*shape, dtype=np.float64)])
    yield Case("Det", [np.array([[0, 1, 0], [0, 0, 2], [3, 0, 0]], np.float32)])
    yield Case("Det", [np.array([[1, 2], [2, 4]], np.float32)])
    for dtype in HALVES:
        yield Case("Det", [normal(2, 3, 3, dtype=dtype)], rtol=0.01, atol=1e-3)


def _losses() -> Iterator[Case]:
    op = "NegativeLogLikelihoodLoss"
    for shape in ((4, 3), (2, 3, 4), (2, 3, 2, 2), (1, 5, 2, 1, 3)):
        target = whole(shape[0], *shape[2:], low=0, high=shape[1])
        for reduction in ("none", "sum", "mean"):
            attrs: dict[str, Any] = {"reduction": reduction}
            yield Case(op, [normal(*shape), target], attrs)
            yield Case(op, [normal(*shape), target, normal(shape[1], seed=1)], attrs)
            yield Case(op, [normal(*shape), target.astype(np.int32)], attrs | {"ignore_index": 1})
            marked = np.where(target == 0, -7, target)
            operands = [normal(*shape), marked, normal(shape[1], seed=1)]
            yield Case(op, list(operands), attrs | {"ignore_index": -7})
    for dtype in HALVES:
        yield Case(op, [normal(4, 3, dtype=dtype), whole(4, low=0, high=3)], **loose(dtype))
    yield Case(op, [normal(2, 3), np.array([1, 1])], {"ignore_index": 1})
