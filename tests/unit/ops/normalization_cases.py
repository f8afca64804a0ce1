"""Small nodes of the normalisations over rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import HALVES, Case, loose, normal


def normalization_cases() -> Iterator[Case]:
    for axis in (0, 1, 2):
        affine = [normal(*(2, 3, 4)[axis:], seed=1), normal(*(2, 3, 4)[axis:], seed=2)]
        for rest in ([], affine[:1], affine, [None, affine[1]]):
            for statistics in (False, True):
                yield Case(
                    "LayerNormalization",
                    [normal(2, 3, 4), *rest],
                    {"axis": axis, "statistics": statistics, "epsilon": 0.1},
                )
        yield Case("RMSNormalization", [normal(2, 3, 4), affine[0]], {"axis": axis})
        yield Case("LpNormalization", [normal(2, 3, 4)], {"axis": axis, "p": 1})
        yield Case("LpNormalization", [normal(2, 3, 4)], {"axis": axis})
    for dtype in HALVES:
        yield Case("LayerNormalization", [normal(3, 8, dtype=dtype)], {"axis": 1}, **loose(dtype))
        statistics = {"axis": 1, "statistics": True}
        yield Case("LayerNormalization", [normal(3, 8, dtype=dtype)], statistics, **loose(dtype))
        operands = [normal(3, 8, dtype=dtype), normal(8, seed=1, dtype=dtype)]
        yield Case("RMSNormalization", operands, {"axis": 1}, **loose(dtype))
        yield Case("LpNormalization", [normal(3, 8, dtype=dtype)], {"axis": 1}, **loose(dtype))
        yield Case("MeanVarianceNormalization", [normal(3, 8, dtype=dtype)], {"axes": (1,)}, **loose(dtype))
        yield Case("GroupNormalization", [normal(2, 4, 3, dtype=dtype)], {"num_groups": 2}, **loose(dtype))
        yield Case("LRN", [normal(2, 4, 3, dtype=dtype)], {"size": 3}, **loose(dtype))
    yield Case("RMSNormalization", [normal(3, 8, dtype=np.float16), normal(8)], {"axis": 1})
    yield Case("LpNormalization", [np.zeros((2, 3), np.float32)], {"axis": 1})
    for groups in (1, 2, 4):
        yield Case("GroupNormalization", [normal(2, 4, 3, 5)], {"num_groups": groups})
        affine = [normal(4, seed=1), normal(4, seed=2)]
        yield Case("GroupNormalization", [normal(2, 4, 3), *affine], {"num_groups": groups, "epsilon": 0.5})
    yield Case("GroupNormalization", [normal(0, 4, 3)], {"num_groups": 2})
    for axes in ((0, 2, 3), (1,), (), (0, 1, 2, 3)):
        yield Case("MeanVarianceNormalization", [normal(2, 3, 4, 5)], {"axes": axes}, atol=1e-5)
    for size in (1, 2, 3, 4, 9):
        attrs = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 1.5}
        yield Case("LRN", [normal(2, 5, 3)], attrs)
    yield Case("LRN", [normal(1, 4)], {"size": 3})
