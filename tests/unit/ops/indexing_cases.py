"""Small nodes of the operators that read, write or look for elements at indices."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from case import HALVES, Case, flags, normal, whole

from tilewright import dtypes

REDUCTIONS = ("none", "add", "mul", "max", "min")
NUMBERS = (np.float64, np.int8, np.int32, np.int64, np.uint8, np.uint64)


def indexing_cases() -> Iterator[Case]:
    yield from _gathers()
    yield from _scatters()
    yield from _searches()
    yield from _running()
    yield from _positions()
    yield from _bits()


def _gathers() -> Iterator[Case]:
    for axis in (0, 1, 2):
        indices = whole(2, 2, 3, low=-2, high=2)
        yield Case("GatherElements", [normal(2, 3, 4), indices], {"axis": axis})
    yield Case("GatherElements", [flags(5), whole(9, low=-5, high=5, dtype=np.int32)])
    yield Case("GatherElements", [normal(3, 4), whole(3, 0)], {"axis": 1})
    for length in (0, 1, 2, 3):
        yield Case("GatherND", [normal(2, 3, 4), whole(5, 2, length, low=-2, high=2)])
    for batch in (1, 2):
        shape = (2, 3, 4)[:batch]
        indices = whole(*shape, 5, 1, low=-3, high=3, dtype=np.int32)
        yield Case("GatherND", [whole(2, 3, 4, 2), indices], {"batch_dims": batch})


def _scatters() -> Iterator[Case]:
    indices = np.array([[0, -1, 0], [2, 0, -1], [0, 0, 0]])
    for reduction in REDUCTIONS:
        for axis in (0, 1):
            operands = [normal(4, 3), indices, normal(3, 3, seed=1)]
            yield Case("ScatterElements", operands, {"axis": axis, "reduction": reduction})
        for dtype in (*NUMBERS, *HALVES):
            operands = [whole(4, 3, dtype=dtype, low=0), indices, whole(3, 3, seed=1, dtype=dtype, low=0)]
            yield Case("ScatterElements", operands, {"axis": 1, "reduction": reduction})
        yield Case("ScatterElements", [flags(4, 3), indices, flags(3, 3, seed=1)], {"reduction": reduction})
        rows = np.array([[-1], [0], [-1]])
        yield Case("ScatterND", [normal(3, 4), rows, normal(3, 4, seed=1)], {"reduction": reduction})
        places = np.array([[[0, 1], [0, 1]], [[-1, -1], [2, 0]]])
        yield Case("ScatterND", [normal(3, 4), places, normal(2, 2, seed=1)], {"reduction": reduction})
    yield Case("ScatterND", [normal(2, 3), whole(2, 0), normal(2, 2, 3, seed=1)], {"reduction": "add"})
    yield Case("ScatterND", [normal(2, 3), whole(0, 1), normal(0, 3)])
    yield Case("ScatterElements", [normal(2, 3), whole(0, 3), normal(0, 3)])
    nan = np.array([1, np.nan, 3], np.float32)
    updates = [np.array([0, 1, 2]), np.array([np.nan, 0, 9], np.float32)]
    for reduction in ("max", "min"):
        yield Case("ScatterElements", [nan, *updates], {"reduction": reduction})


def _searches() -> Iterator[Case]:
    ties = np.array([[3, 1, 3, 2], [0, 0, 0, 0], [-1, np.inf, -np.inf, np.nan]], np.float32)
    for largest in (False, True):
        for k in (0, 1, 3, 4):
            yield Case("TopK", [ties], {"k": k, "axis": 1, "largest": largest})
        yield Case("TopK", [normal(2, 9, 3)], {"k": 5, "axis": 1, "largest": largest})
        for dtype in (*NUMBERS, *HALVES):
            x = whole(17, dtype=dtype, low=0)
            yield Case("TopK", [x], {"k": 11, "axis": 0, "largest": largest})
    for op in ("ArgMax", "ArgMin"):
        for last in (False, True):
            for axis in (0, 1):
                attrs = {"axis": axis, "last": last, "keepdims": axis == 0}
                yield Case(op, [ties], attrs)
                yield Case(op, [whole(3, 5, low=0, high=2)], attrs)
        for dtype in (*NUMBERS, *HALVES):
            yield Case(op, [whole(4, 3, dtype=dtype, low=0)], {"axis": 0})
    for axis in (0, 1, 2):
        yield Case("Hardmax", [whole(2, 3, 4, low=0, high=3, dtype=np.float32)], {"axis": axis})
    yield Case("Hardmax", [normal(3, 4, dtype=ml_dtypes.bfloat16)], {"axis": 1})


def _running() -> Iterator[Case]:
    for op in ("CumSum", "CumProd"):
        for exclusive in (False, True):
            for reverse in (False, True):
                flags_ = {"exclusive": exclusive, "reverse": reverse}
                for axis in (0, 1, 2):
                    yield Case(op, [whole(2, 3, 4, low=1, high=4)], {"axis": axis, **flags_})
                    yield Case(op, [whole(2, 3, 4, low=1, high=4), np.asarray(axis - 3)], flags_)
        for dtype in (*NUMBERS, *HALVES):
            yield Case(op, [whole(5, dtype=dtype, low=1, high=3)], {"axis": 0})
        yield Case(op, [normal(2, 0, 3)], {"axis": 1})
        yield Case(op, [normal(3, 70), np.array([0], np.int32)])


def _positions() -> Iterator[Case]:
    values = np.array([2, 5], np.float32)
    for axis in (0, 1, 2):
        yield Case("OneHot", [whole(2, 3, low=-6, high=7), values], {"depth": 5, "axis": axis})
    yield Case("OneHot", [np.array([1.9, -1, 4], np.float32), flags(2)], {"depth": 4, "axis": 1})
    yield Case("OneHot", [whole(4), values], {"depth": 0, "axis": 0})
    for upper in (False, True):
        yield Case("Trilu", [normal(2, 3, 4)], {"upper": upper})
        for k in (-9, -1, 2, 9):
            yield Case("Trilu", [whole(4, 3), np.asarray(k)], {"upper": upper})
    for time, batch in ((0, 1), (1, 0), (2, 1)):
        lengths = np.array([2, 0, 1, 9][: (4, 3, 4)[batch]], np.int64)
        axes = {"time_axis": time, "batch_axis": batch}
        yield Case("ReverseSequence", [normal(4, 3, 4), lengths], axes)
    for mode in ("linear", "circular"):
        for starts in (None, np.array([0, 3])):
            operands = [normal(2, 5, 3), normal(2, 2, 3, seed=1), starts]
            yield Case("TensorScatter", operands, {"axis": 1, "mode": mode})
    yield Case("TensorScatter", [normal(2, 5), normal(2, 0)], {"axis": 1, "mode": "circular"})
    yield Case("RandomUniform", [], {"shape": (3, 4), "seed": 2**32 - 1})
    yield Case("RandomUniform", [], {"shape": (0,), "seed": 7})


def _bits() -> Iterator[Case]:
    pairs = [("f32", "u32"), ("f64", "i64"), ("f16", "i16"), ("bf16", "u16"), ("i8", "u8"), ("f32", "f32")]
    for wide, narrow in pairs:
        a, b = dtypes.DTYPES[wide], dtypes.DTYPES[narrow]
        x = normal(6) * 3
        yield Case("BitCast", [x.astype(a.numpy)], {"of": a, "to": b})
        yield Case("BitCast", [x.astype(a.numpy).view(b.numpy)], {"of": b, "to": a})
    yield Case("BitCast", [np.array([True, False])], {"of": dtypes.BOOL, "to": dtypes.U8})


def code_cases() -> Iterator[Case]:
    """Every code decoded; numbers around all of them, halfway and beyond, encoded."""
    for dtype in (d for d in dtypes.DTYPES.values() if d.is_code):
        codes = np.arange(1 << dtype.file_bits, dtype=np.uint8).view(dtype.numpy)
        yield Case("Decode", [codes])
        if not dtype.name.startswith("f"):
            yield Case("Encode", [whole(40, dtype=np.int32, low=-40, high=40)], {"to": dtype})
            continue
        exact = codes.astype(np.float64)
        exact = np.sort(exact[np.isfinite(exact)])
        middle = (exact[1:] + exact[:-1]) / 2
        beyond = np.array([np.nan, np.inf, 0.0, 1e30, 1e-30, exact[-1] * 1.03, exact[-1] * 1.07])
        near = [np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
        numbers = np.concatenate([exact, middle, *near, beyond])
        powers = dtype.name == "f8e8m0"
        numbers = np.abs(numbers) if powers else np.concatenate([numbers, -numbers])
        for saturate in (False, True):
            for mode in ("up", "down", "nearest") if powers else ("up",):
                attrs = {"to": dtype, "saturate": saturate, "round_mode": mode}
                yield Case("Encode", [numbers.astype(np.float32)], attrs)
                if not powers:
                    yield Case("Encode", [numbers], attrs)
