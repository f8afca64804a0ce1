"""Small nodes of the element-wise operators beyond common arithmetic, and of quantised ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from case import HALVES, Case, loose, normal, positive, whole

from tilewright import dtypes

SPECIAL = np.array(
    [-np.inf, -100, -20, -1.5, -1, -0.5, -1e-4, -0.0, 0, 1e-4, 0.5, 1, 1.5, 20, 88.85, np.inf, np.nan]
)


def pointwise_cases() -> Iterator[Case]:
    functions = ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan"]
    activations = ["Celu", "Selu", "ThresholdedRelu", "Mish", "Swish", "Shrink", "Softsign"]
    for op in (*functions, *activations, "IsInf", "IsNaN"):
        for dtype in (np.float32, np.float64, *HALVES):
            yield Case(op, [SPECIAL.astype(dtype)], **loose(dtype))
        yield Case(op, [normal(0, 2)])
    for op in ("Celu", "Selu", "ThresholdedRelu", "Swish"):
        yield Case(op, [normal(9)], {"alpha": 0.3})
    yield Case("Selu", [normal(9)], {"gamma": 2.0})
    yield Case("Shrink", [normal(9)], {"lambd": 0.2, "bias": 0.1})
    for positive_sign, negative_sign in ((True, False), (False, True), (False, False)):
        yield Case(
            "IsInf", [SPECIAL.astype(np.float32)], {"positive": positive_sign, "negative": negative_sign}
        )
    for width in (8, 16, 32, 64):
        for kind in ("int", "uint"):
            dtype = np.dtype(f"{kind}{width}")
            a, b = whole(2, 3, dtype=dtype, low=0), whole(3, seed=1, dtype=dtype, low=0)
            for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
                yield Case(op, [a, b])
            yield Case("BitwiseNot", [a])
            amounts = np.arange(width + 3, dtype=dtype)
            for direction in ("LEFT", "RIGHT"):
                yield Case(
                    "BitShift", [np.asarray(np.iinfo(dtype).max, dtype), amounts], {"direction": direction}
                )
                yield Case(
                    "BitShift", [np.asarray(np.iinfo(dtype).min, dtype), amounts], {"direction": direction}
                )
    reals = np.array([5.5, -5.5, 5.5, -5.5, 0, -0.0, 5, np.inf, 1, 3], np.float32)
    divisors = np.array([2, 2, -2, -2, -3, 3, np.inf, 2, 0, -np.inf], np.float32)
    for fmod in (0, 1):
        yield Case("Mod", [reals, divisors], {"fmod": fmod})


def quantized_cases() -> Iterator[Case]:
    x = np.array([[0, 2, -3, 1000, -1000, np.inf, -np.inf, np.nan, 2.5, 3.5]], np.float32)
    for to in (dtypes.I8, dtypes.U8, dtypes.I16, dtypes.U16):
        point = np.asarray(3, to.numpy)
        yield Case("QuantizeLinear", [x, np.asarray(0.5, np.float32), point], {"to": to})
        yield Case(
            "DequantizeLinear", [whole(3, 4, dtype=to.numpy, low=0), np.asarray(0.5, np.float32), point], _F32
        )
    for dtype in HALVES:
        scale = np.asarray(0.3, dtype)
        yield Case("QuantizeLinear", [normal(3, 4, dtype=dtype), scale], {"to": dtypes.U8})
        to = dtypes.DType.of(dtype)
        yield Case("DequantizeLinear", [whole(3, 4, dtype=np.int8), scale], {"to": to})
    for axis in (0, 1, 2):
        count = (2, 5, 3)[axis]
        scale, zero = positive(count), whole(count, dtype=np.int8)
        yield Case("QuantizeLinear", [normal(2, 5, 3), scale, zero], {"axis": axis, "to": dtypes.I8})
        yield Case("DequantizeLinear", [whole(2, 5, 3, dtype=np.int8), scale, zero], {"axis": axis, **_F32})
    scale, zero = positive(2, 3, 3), whole(2, 3, 3, dtype=np.int8)
    blocked: dict[str, Any] = {"axis": 1, "block_size": 2}
    yield Case("QuantizeLinear", [normal(2, 5, 3), scale, zero], {**blocked, "to": dtypes.I8})
    yield Case("QuantizeLinear", [normal(2, 6, 3), scale, zero], {"axis": 1, "to": dtypes.I8})
    yield Case("DequantizeLinear", [whole(2, 5, 3, dtype=np.int8), scale, zero], {**blocked, **_F32})
    yield Case("QuantizeLinear", [whole(4, dtype=np.int32), np.asarray(2.0, np.float32)], {"to": dtypes.I8})
    yield Case(
        "QuantizeLinear", [normal(4), np.asarray(0.5, np.float32)], {"to": dtypes.I8, "precision": dtypes.F16}
    )
    for data in (normal(3, 4), positive(5), -positive(5), np.zeros(4, np.float32)):
        yield Case("DynamicQuantizeLinear", [data])
    yield from _integer_products()


def _integer_products() -> Iterator[Case]:
    a, b = whole(2, 3, 4, dtype=np.uint8, low=0, high=255), whole(4, 5, dtype=np.int8, low=-128, high=127)
    for a_zero in (None, np.uint8(7), whole(2, 3, 1, dtype=np.uint8, low=0)):
        for b_zero in (None, np.array([-5], np.int8), whole(5, dtype=np.int8)):
            yield Case("MatMulInteger", [a, b, None if a_zero is None else np.asarray(a_zero), b_zero])
    yield Case("MatMulInteger", [a[0], b, np.arange(3, dtype=np.uint8)])
    one = np.asarray(0.1, np.float32)
    y = [np.asarray(2.5, np.float32), np.asarray(-9, np.int8)]
    zeros = [np.asarray(128, np.uint8), np.asarray(3, np.int8)]
    yield Case("QLinearMatMul", [a, one, zeros[0], b, one, zeros[1], *y])
    rows, columns = positive(3), positive(5)
    points = [whole(3, dtype=np.uint8, low=0), whole(5, dtype=np.int8)]
    yield Case("QLinearMatMul", [a[0], rows, points[0], b, columns, points[1], *y])
    x, w = (
        whole(2, 4, 6, 5, dtype=np.uint8, low=0, high=255),
        whole(6, 4, 3, 3, dtype=np.int8, low=-128, high=127),
    )
    bias = whole(6, dtype=np.int32, low=-999, high=999)
    scales, many = positive(6), whole(6, dtype=np.int8)
    padded: dict[str, Any] = {"pads": (1, 0, 1, 2), "strides": (1, 2)}
    yield Case("QLinearConv", [x, one, zeros[0], w, one, zeros[1], *y])
    yield Case("QLinearConv", [x, one, zeros[0], w, scales, many, *y, bias], padded)
    grouped = [x, one, zeros[0], w[:, :2], one, zeros[1], *y, bias]
    yield Case("QLinearConv", grouped, {"group": 2, "dilations": (2, 1)})


_F32: dict[str, Any] = {"to": dtypes.F32}
