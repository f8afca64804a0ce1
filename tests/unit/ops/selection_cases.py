"""Small nodes of the operators whose results have as many elements as the data say, and of Cut and Uncut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from case import HALVES, Case, flags, normal, whole

NUMBERS = (np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8, np.uint64, *HALVES)


def selection_cases() -> Iterator[Case]:
    yield from _nonzero()
    yield from _compress()
    yield from _unique()
    yield from _suppression()
    yield from _ngrams()
    yield Case("Cut", [normal(2, 3), np.array(3)], {"axis": 1, "count": "n"})
    yield Case("Uncut", [normal(2, 3)], {"shape": (2, 3)})


def _nonzero() -> Iterator[Case]:
    for shape in ((), (7,), (3, 4), (2, 3, 4), (0,), (3, 0)):
        yield Case("NonZero", [flags(*shape)])
    for dtype in NUMBERS:
        yield Case("NonZero", [whole(4, 5, dtype=dtype, low=0, high=2)])
    yield Case("NonZero", [np.array([0.0, -0.0, np.nan, -1.5, np.inf], np.float32)])
    yield Case("NonZero", [np.zeros((2, 3), np.float32)])


def _compress() -> Iterator[Case]:
    for axis in (0, 1, 2):
        yield Case("Compress", [normal(3, 4, 5), flags((3, 4, 5)[axis], seed=axis)], {"axis": axis})
    for dtype in (*NUMBERS, bool):
        yield Case("Compress", [whole(6, 2, dtype=dtype, low=0), flags(4, seed=3)], {"axis": 0})
    yield Case("Compress", [normal(3, 2), flags(9, seed=1)], {"axis": 0})
    yield Case("Compress", [normal(3, 2), np.zeros(3, bool)], {"axis": 0})
    yield Case("Compress", [normal(0, 2), np.zeros(0, bool)], {"axis": 0})


def _unique() -> Iterator[Case]:
    for sorted_ in (True, False):
        for dtype in (*NUMBERS, bool):
            yield Case("Unique", [whole(17, dtype=dtype, low=0, high=5)], {"axis": 0, "sorted": sorted_})
        for axis in (0, 1, 2):
            attrs: dict[str, Any] = {"axis": axis, "sorted": sorted_}
            yield Case("Unique", [whole(4, 3, 2, seed=axis, dtype=np.int32, low=0, high=2)], attrs)
        for shape in ((0,), (1,), (3, 0), (0, 3)):
            yield Case("Unique", [whole(*shape)], {"axis": 0, "sorted": sorted_})
        nan, zero = np.float32("nan"), np.float32(0)
        x = np.array([nan, 2, zero, nan, -zero, -np.inf, 2, nan], np.float32)
        yield Case("Unique", [x], {"axis": 0, "sorted": sorted_})
        rows = np.array([[nan, 1], [0, nan], [nan, 1], [0, nan], [0, 5]], np.float32)
        yield Case("Unique", [rows], {"axis": 0, "sorted": sorted_})


def _ngrams() -> Iterator[Case]:
    for length, shape in ((1, (3, 9)), (2, (2, 30)), (3, (1, 200)), (3, (2, 2)), (2, (0, 4)), (2, (3, 0))):
        grams = np.unique(whole(7, length, low=-2, high=3), axis=0)
        columns = np.arange(len(grams))[::-1] % 5
        for distance in (1, 4):
            attrs = {"distance": distance, "size": 6}
            yield Case("NGramCount", [whole(*shape, low=-3, high=4), grams, columns], attrs)
    nothing = np.zeros((0, 2), np.int64)
    yield Case("NGramCount", [whole(2, 5), nothing, np.zeros(0, np.int64)], {"size": 3})


def _suppression() -> Iterator[Case]:
    rng = np.random.default_rng(5)
    for dtype in (np.float32, np.float64):
        corners = rng.uniform(0, 1, (2, 9, 4)).astype(dtype)
        scores = rng.uniform(0, 1, (2, 3, 9)).astype(dtype)
        numbers = [np.array([4]), np.array([0.3], dtype), np.array([0.2], dtype)]
        for center in (False, True):
            attrs = {"limit": 9, "center": center}
            yield Case("NonMaxSuppression", [corners, scores, *numbers], attrs)
            yield Case("NonMaxSuppression", [corners, scores, np.array([2])], {"limit": 2, "center": center})
    yield Case("NonMaxSuppression", [corners, scores], {"limit": 9})
    yield Case("NonMaxSuppression", [corners, scores, np.array([0])], {"limit": 9})
    yield Case("NonMaxSuppression", [corners, np.round(scores), np.array(9)], {"limit": 9})
    empty = [np.zeros((1, 0, 4), np.float32), np.zeros((1, 2, 0), np.float32)]
    yield Case("NonMaxSuppression", empty, {"limit": 0})
    boxes = np.array([[[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]]], np.float32)
    yield Case("NonMaxSuppression", [boxes, np.full((1, 1, 4), 0.5, np.float32), np.array(4)], {"limit": 4})
