"""One table of small nodes for every operator: operands, attributes. Tests of all rules walk over it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from attention_and_spectral_cases import attention_cases, linear_attention_cases, transform_cases
from case import HALVES, Case, flags, loose, normal, positive, whole
from image_cases import image_cases
from indexing_cases import code_cases, indexing_cases
from normalization_cases import normalization_cases
from pointwise_cases import pointwise_cases, quantized_cases
from product_and_loss_cases import product_and_loss_cases
from recurrent_cases import recurrent_cases
from selection_cases import selection_cases
from spatial_cases import spatial_cases

from tilewright import dtypes
from tilewright.storage import Storage

SPECIAL = np.array([-np.inf, -1000, -20, -2.5, -1.5, -0.5, -0.0, 0, 0.5, 1.5, 20, 1000, np.inf, np.nan])


def _elementwise() -> Iterator[Case]:
    anywhere = [
        "Relu",
        "LeakyRelu",
        "Elu",
        "Sigmoid",
        "Softplus",
        "HardSigmoid",
        "HardSwish",
        "Gelu",
        "Tanh",
        "Exp",
        "Erf",
        "Floor",
        "Ceil",
        "Round",
    ]
    for op in (*anywhere, "Abs", "Neg", "Sign", "Identity"):
        for dtype in (np.float32, np.float64, *HALVES):
            yield Case(op, [SPECIAL.astype(dtype)], **loose(dtype))
        yield Case(op, [normal(3, 4)])
        yield Case(op, [normal().astype(np.float32)])
        yield Case(op, [normal(0, 2)])
    for op in ("Sin", "Cos"):
        yield Case(op, [normal(3, 4)])
    for op in ("Log", "Sqrt", "Reciprocal"):
        yield Case(op, [positive(3, 4)])
        yield Case(op, [np.array([0, -1, np.inf, np.nan], np.float32)])
    for dtype in (np.int8, np.int32, np.int64):
        for op in ("Relu", "Abs", "Neg", "Sign", "Identity"):
            yield Case(op, [whole(7, dtype=dtype)])
    for op in ("Abs", "Sign", "Identity"):
        yield Case(op, [whole(7, dtype=np.uint8, low=0)])
    yield Case("Not", [flags(5)])
    yield Case("Identity", [flags(5)])
    yield Case("LeakyRelu", [normal(9)], {"alpha": 0.3})
    yield Case("Elu", [normal(9)], {"alpha": 2.0})
    yield Case("HardSigmoid", [normal(9)], {"alpha": 0.5, "beta": 0.1})
    yield Case("Gelu", [normal(9)], {"approximate": "tanh"})


def _broadcast() -> Iterator[Case]:
    shapes = [((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 2)), ((1,), (0,)), ((2, 1, 2), (3, 1))]
    arithmetic = ("Add", "Sub", "Mul", "Div", "Max", "Min")
    compared = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    for left, right in shapes:
        for op in (*arithmetic, *compared):
            yield Case(op, [normal(*left), normal(*right, seed=1)])
            yield Case(op, [whole(*left), np.where(whole(*right, seed=1) == 0, 3, whole(*right, seed=1))])
        for op in ("And", "Or", "Xor", "Equal"):
            yield Case(op, [flags(*left), flags(*right, seed=1)])
        yield Case("Pow", [positive(*left), normal(*right, seed=1)])
        yield Case("Where", [flags(*left), normal(*right), normal(1, seed=2)])
    for dtype in HALVES:
        yield Case("Div", [normal(3, 4, dtype=dtype), positive(4, dtype=dtype)])
    nan = np.array([np.nan, 1, np.nan], np.float32)
    for op in ("Max", "Min"):
        yield Case(op, [nan, np.array([1, np.nan, np.nan], np.float32)])
        yield Case(op, [np.array([[np.nan], [2], [20]], np.float32), np.array([10], np.float32)])
    signs = [np.array([8, -8, 7, -7, 6]), np.array([-3, 3, -2, 2, 2])]
    unsigned = [np.array([200, 7], np.uint8), np.array([3, 255], np.uint8)]
    yield Case("Div", signs)
    yield Case("Div", unsigned)
    yield Case("Pow", [np.array([2, -3, 5]), np.array([3, 3, 0])])
    for fmod in (0, 1):
        yield Case("Mod", signs, {"fmod": fmod})
        yield Case("Mod", unsigned, {"fmod": fmod})
    yield Case("Mod", [np.array([5.5, -5.5, 5.5], np.float32), np.array([2, 2, -2], np.float32)], {"fmod": 1})
    yield Case("Where", [flags(3), whole(3), whole(3, seed=1)])
    scalar = [np.asarray(v, np.float32) for v in (-0.5, 0.7)]
    yield Case("Clip", [normal(3, 4), *scalar])
    yield Case("Clip", [normal(3, 4), None, scalar[1]])
    yield Case("Clip", [normal(3, 4), scalar[0]])
    yield Case("Clip", [normal(3, 4)])
    yield Case("Clip", [normal(3, 4), scalar[1].reshape(1), scalar[0]])
    yield Case("Clip", [whole(5), np.asarray(-2), np.asarray(3)])


def _convolution() -> Iterator[Case]:
    near: Any = {"rtol": 1e-4, "atol": 1e-5}
    two = normal(2, 4, 7, 6)
    for attrs in (
        {},
        {"pads": (1, 1, 1, 1)},
        {"pads": (0, 0, 1, 1), "strides": (2, 2)},
        {"pads": (1, 2, 2, 1), "strides": (2, 1)},
        {"pads": (2, 2, 2, 2), "dilations": (2, 2)},
        {"pads": (3, 3, 3, 3), "dilations": (3, 3), "strides": (2, 2)},
        {"strides": (3, 4)},
    ):
        yield Case("Conv", [two, normal(5, 4, 3, 3), normal(5)], attrs, **near)
        yield Case("Conv", [two, normal(6, 2, 3, 3)], {**attrs, "group": 2}, **near)
        yield Case("Conv", [two, normal(4, 1, 3, 3), normal(4)], {**attrs, "group": 4}, **near)
        yield Case("Conv", [two, normal(8, 1, 3, 3)], {**attrs, "group": 4}, **near)
        yield Case("Patches", [two], {**attrs, "kernel_shape": (3, 2), "group": 2})
    yield Case("Conv", [two, normal(3, 4, 1, 1)], **near)
    yield Case("Conv", [normal(0, 4, 5, 5), normal(3, 4, 3, 3)], {"pads": (1, 1, 1, 1)}, **near)
    yield Case("Conv", [normal(0, 2, 5, 5), normal(2, 1, 3, 3)], {"group": 2}, **near)
    yield Case("Conv", [normal(1, 0, 5, 5), normal(3, 0, 3, 3), normal(3)], {"pads": (1, 1, 1, 1)}, **near)
    yield Case("Conv", [normal(1, 4, 5, 5), normal(0, 4, 3, 3)], **near)
    for tile, positions in ((2, 16), (4, 36)):
        operands = [normal(2, 3, 7, 10), normal(positions, 4, 3), normal(4)]
        yield Case("WinogradConv", operands, {"pads": (1, 0, 1, 1), "tile": tile}, **near)
    yield Case(
        "Conv", [normal(1, 2, 9), normal(3, 2, 4), normal(3)], {"pads": (1, 2), "strides": (2,)}, **near
    )
    yield Case("Conv", [normal(1, 2, 4, 5, 3), normal(3, 2, 2, 2, 2)], {"pads": (1, 0, 1, 0, 1, 0)}, **near)
    yield Case("Patches", [normal(1, 2, 9)], {"kernel_shape": (4,), "pads": (1, 2), "strides": (2,)})
    yield Case("Patches", [normal(1, 2, 4, 5, 3)], {"kernel_shape": (2, 2, 1), "pads": (1, 0, 1, 0, 1, 0)})
    yield Case("Patches", [normal(0, 4, 5, 5)], {"kernel_shape": (3, 3)})
    for dtype in HALVES:
        halves = [normal(1, 2, 4, 4, dtype=dtype), normal(3, 2, 2, 2, dtype=dtype), normal(3, dtype=dtype)]
        yield Case("Conv", halves, {"pads": (1, 0, 0, 1)}, rtol=0.02, atol=0.02)
    yield Case(
        "Conv", [normal(1, 2, 5, 5, dtype=np.float64), normal(1, 2, 3, 3, dtype=np.float64)], rtol=1e-12
    )


def _transposed() -> Iterator[Case]:
    near: Any = {"rtol": 1e-4, "atol": 1e-5}
    x = normal(2, 4, 3, 5)
    for attrs in (
        {},
        {"strides": (2, 2), "pads": (1, 1, 1, 1)},
        {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)},
        {"strides": (2, 3), "pads": (0, 2, 1, 0)},
        {"strides": (3, 1), "output_padding": (2, 0)},
        {"strides": (4, 4)},
        {"strides": (2, 2), "pads": (2, 0, 2, 2), "output_padding": (0, 1)},
        {"dilations": (2, 1)},
        {"dilations": (2, 3), "strides": (2, 1), "pads": (1, 4, 0, 3), "output_padding": (1, 0)},
        {"dilations": (2, 2), "strides": (3, 3), "pads": (5, 5, 4, 4)},
    ):
        yield Case("ConvTranspose", [x, normal(4, 3, 3, 3), normal(3)], attrs, **near)
        yield Case("ConvTranspose", [x, normal(4, 3, 3, 4)], {**attrs, "group": 2}, **near)
        yield Case("ConvTranspose", [x, normal(4, 1, 4, 3), normal(4)], {**attrs, "group": 4}, **near)
    pixel = normal(2, 6, 1, 1)
    yield Case("ConvTranspose", [pixel, normal(6, 5, 4, 4), normal(5)], **near)
    one: dict[str, Any] = {"strides": (2, 2), "pads": (1, 0, 1, 0), "output_padding": (1, 1)}
    yield Case("ConvTranspose", [pixel, normal(6, 5, 4, 4)], one, **near)
    yield Case("ConvTranspose", [pixel, normal(6, 2, 4, 4), normal(4)], {"group": 2}, **near)
    yield Case("ConvTranspose", [normal(1, 2, 7), normal(2, 3, 5)], {"strides": (2,), "pads": (2, 2)}, **near)
    yield Case(
        "ConvTranspose", [normal(1, 2, 2, 3, 2), normal(2, 1, 3, 2, 2)], {"strides": (2, 1, 2)}, **near
    )


def _pools() -> Iterator[Case]:
    for attrs in (
        {"kernel_shape": (2, 2)},
        {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
        {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1},
        {"kernel_shape": (3, 2), "strides": (2, 2), "ceil_mode": 1, "pads": (0, 1, 2, 1)},
        {"kernel_shape": (2, 2), "dilations": (2, 3), "pads": (1, 2, 1, 1)},
        {
            "kernel_shape": (3, 2),
            "dilations": (2, 2),
            "strides": (3, 2),
            "pads": (2, 1, 2, 1),
            "ceil_mode": 1,
        },
    ):
        yield Case("MaxPool", [normal(2, 3, 7, 8)], attrs)
        for include in (0, 1):
            yield Case("AveragePool", [normal(2, 3, 7, 8)], {**attrs, "count_include_pad": include})
    yield Case("MaxPool", [whole(1, 2, 5, dtype=np.int8)], {"kernel_shape": (3,), "pads": (1, 1)})
    yield Case("MaxPool", [whole(1, 2, 5, dtype=np.uint8, low=0)], {"kernel_shape": (3,), "pads": (1, 1)})
    yield Case(
        "AveragePool", [normal(1, 2, 3, 4, 5)], {"kernel_shape": (2, 2, 2), "pads": (1, 0, 0, 1, 0, 0)}
    )
    yield Case("MaxPool", [normal(0, 2, 5)], {"kernel_shape": (2,)})
    yield Case("AveragePool", [normal(0, 2, 5)], {"kernel_shape": (2,), "pads": (1, 0)})
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield Case(op, [normal(2, 3, 4, 5)])
        yield Case(op, [normal(2, 3, 4)])


def _reductions() -> Iterator[Case]:
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
        for keepdims in (True, False):
            for axes in ((), (1,), (0, 2), (2, 1), (0, 1, 2)):
                yield Case(op, [normal(2, 3, 4)], {"axes": axes, "keepdims": keepdims})
            yield Case(op, [whole(2, 3, 4)], {"axes": (1,), "keepdims": keepdims})
        yield Case(op, [np.array([[1, np.nan], [3, 4]], np.float32)], {"axes": (0,)})
        yield Case(op, [normal(4, 8, dtype=np.float16)], {"axes": (1,)}, rtol=2e-3)
    yield Case("ReduceSum", [normal(2, 0)], {"axes": (1,)})
    yield Case("ReduceProd", [normal(2, 0)], {"axes": (1,)})
    yield Case("ReduceSum", [np.full((3, 100), 100, np.int8)], {"axes": (1,)})
    for op in ("Softmax", "LogSoftmax"):
        for axis in (0, 1, 2):
            yield Case(op, [normal(2, 3, 4)], {"axis": axis})
        yield Case(op, [np.array([[-249.87, -424.1, 378.1, -292.6]], np.float32)], {"axis": 1})
        yield Case(op, [np.array([[-np.inf, -np.inf], [0, -np.inf]], np.float32)], {"axis": 1})
        yield Case(op, [np.array([60000, 59990, 0], np.float16)], {"axis": 0})
        yield Case(op, [normal(0, 3)], {"axis": 1})


def _products_of_bytes() -> Iterator[Case]:
    """Over the whole range of their types, exact in i32."""

    def bytes_of(name: str, *shape: int) -> np.ndarray:
        dtype = np.dtype(name)
        limits = np.iinfo(dtype)
        return whole(*shape, dtype=dtype, low=limits.min, high=limits.max + 1)

    sums = whole(5, dtype=np.int32)
    for x, w in product(("uint8", "int8"), repeat=2):
        image, weights = bytes_of(x, 2, 4, 6, 5), bytes_of(w, 5, 4, 3, 3)
        yield Case("Conv", [image, weights, sums], {"wide": True})
        padded = {"wide": True, "pads": (1, 0, 2, 1), "pad_value": 117}
        yield Case("Conv", [image, weights], {**padded, "strides": (2, 1)})
        yield Case("Conv", [image, bytes_of(w, 4, 1, 3, 3)], {**padded, "group": 4})
        yield Case("MatMul", [bytes_of(x, 2, 3, 9), bytes_of(w, 9, 4)], {"wide": True})


def _products() -> Iterator[Case]:
    pairs = [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((3,), (4, 3, 2)),
        ((0, 2), (2,)),
        ((2, 0), (0, 3)),
        ((5, 2, 3), (3, 4)),
    ]
    for left, right in pairs:
        yield Case("MatMul", [normal(*left), normal(*right, seed=1)])
        yield Case("MatMul", [whole(*left), whole(*right, seed=1)])
    yield Case(
        "MatMul", [normal(2, 3, dtype=np.float16), normal(3, 2, dtype=np.float16)], rtol=2e-3, atol=1e-3
    )
    for shape in ((), (1,), (4,), (2, 1), (1, 4), (2, 4)):
        for flips in ((0, 0), (0, 1), (1, 0), (1, 1)):
            a = normal(3, 2) if flips[0] else normal(2, 3)
            b = normal(4, 3) if flips[1] else normal(3, 4)
            attrs = {"transA": flips[0], "transB": flips[1], "alpha": 0.5, "beta": 2.0}
            yield Case("Gemm", [a, b, normal(*shape, seed=3)], attrs)
    yield Case("Gemm", [normal(2, 3), normal(3, 4)])
    yield Case("Gemm", [normal(2, 3), normal(3, 4), normal(4)])
    yield Case("Gemm", [normal(2, 3), normal(3, 4)], {"alpha": 2.0})
    yield Case("Gemm", [normal(2, 3), normal(3, 4), np.full(4, np.nan, np.float32)], {"beta": 0.0})
    yield Case("Gemm", [normal(0, 3), normal(3, 4), normal(4)])


def _movement() -> Iterator[Case]:
    for source, target in [
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (4, 3, 2)),
        ((2, 3, 4), (2, 3, 2, 2)),
        ((6, 1, 1), (1, 6)),
        ((1, 1), ()),
        ((2, 6, 5), (3, 4, 5)),
        ((0, 8, 2), (0, 0, 4)),
        ((4, 6), (2, 2, 1, 3, 2)),
    ]:
        yield Case("Reshape", [normal(*source)], {"shape": target})
    for perm in ((0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)):
        yield Case("Transpose", [normal(2, 3, 4)], {"perm": perm})
    yield Case("Transpose", [normal()], {"perm": ()})
    yield Case("Concat", [normal(2, 3), normal(2, 1, seed=1), normal(2, 4, seed=2)], {"axis": 1})
    yield Case("Concat", [normal(2, 3)], {"axis": 0})
    yield Case("Concat", [normal(0), normal(2)], {"axis": 0})
    yield Case("Concat", [normal(4, 0), normal(3, 0)], {"axis": 0})
    yield Case("Split", [normal(2, 7, 3)], {"axis": 1, "sizes": (2, 4, 1)})
    yield Case("Split", [normal(6)], {"axis": 0, "sizes": (3, 0, 3)})
    for shape, target in [((3, 1), (2, 1, 4)), ((), (2, 3)), ((2, 3), (3,)), ((1,), (0,))]:
        yield Case("Expand", [normal(*shape)], {"shape": target})
    for repeats in ((2, 3), (1, 2), (0, 1)):
        yield Case("Tile", [normal(2, 3)], {"repeats": repeats})
    for mode in ("DCR", "CRD"):
        yield Case("DepthToSpace", [normal(2, 18, 2, 3)], {"blocksize": 3, "mode": mode})
        yield Case("DepthToSpace", [normal(1, 8, 3, 1)], {"blocksize": 2, "mode": mode})
    casts = np.array([-1.5, -0.0, 0.4, 2.9, 300.0], np.float32)
    for name in ("f64", "f16", "bf16", "i32", "i64", "bool"):
        yield Case("Cast", [casts], {"to": dtypes.DTYPES[name]})
    denormal = np.array([1e-39, -1e-39, 1.2e-38, 0.0, -0.0, 1.0, np.inf, np.nan], np.float32)
    yield Case("Cast", [denormal], {"to": dtypes.BF16, "flush": True})
    yield Case("Cast", [np.array([300, -1, 256], np.int32)], {"to": dtypes.U8})
    yield Case("Cast", [np.array([-1, 0, 2])], {"to": dtypes.BOOL})
    yield Case("Cast", [flags(4)], {"to": dtypes.F32})


def _slice(start: int, end: int, step: int) -> dict[str, tuple[int, ...]]:
    return {"starts": (start,), "ends": (end,), "axes": (0,), "steps": (step,)}


def _indexing() -> Iterator[Case]:
    for bounds in ((9, 0, -1), (9, 0, -3), (7, -1, -2), (0, 10, 3), (4, 4, 1), (9, -1, -1), (2, 7, 1)):
        yield Case("Slice", [np.arange(10, dtype=np.float32)], _slice(*bounds))
    every = {"starts": (1, 2, 0), "ends": (2, -1, 4), "axes": (0, 1, 2), "steps": (1, -1, 2)}
    yield Case("Slice", [normal(2, 3, 4)], every)
    yield Case("Slice", [normal(0, 3)], {"starts": (0,), "ends": (2,), "axes": (1,), "steps": (1,)})
    for mode in ("constant", "reflect", "edge", "wrap"):
        for pads in ((0, 1, 0, 1), (1, 2, 0, 1), (0, -1, 0, 2), (0, 5, 0, 4), (-1, 1, 1, -2)):
            yield Case("Pad", [normal(3, 4)], {"pads": pads, "mode": mode})
        yield Case("Pad", [np.arange(1, 5, dtype=np.float32)], {"pads": (-1, 2), "mode": mode})
    yield Case("Pad", [normal(2, 2), np.asarray(7, np.float32)], {"pads": (1, 0, 0, 1)})
    yield Case("Pad", [normal(2, 2), np.asarray([7], np.float32)], {"pads": (1, 0, 0, 1)})
    yield Case("Pad", [normal(3, 1)], {"pads": (0, 2, 0, 2), "mode": "reflect"})
    yield Case("Pad", [normal(2, 0)], {"pads": (0, 1, 0, 1)})
    yield Case("Pad", [normal()], {"pads": ()})
    for axis in (0, 1):
        yield Case("Gather", [normal(3, 4, 2), np.array([[0, -1], [2, -3]])], {"axis": axis})
        yield Case("Gather", [normal(3, 4), np.asarray(-1)], {"axis": axis})
    yield Case("Gather", [whole(5), np.array([], np.int32)])


def _rest() -> Iterator[Case]:
    statistics: list[np.ndarray | None] = [
        normal(3, seed=1),
        normal(3, seed=2),
        normal(3, seed=3),
        positive(3),
    ]
    for shape in ((2, 3, 4, 5), (2, 3), (1, 3, 7)):
        yield Case("BatchNormalization", [normal(*shape), *statistics])
    yield Case("BatchNormalization", [normal(2, 3, 4, 4), *statistics], {"epsilon": 0.01})
    for tag in ("Abcd4a", "acdb", "aBcd4b", "acdb+0.0.0.0.1.1.1.1"):
        yield Case("Pack", [normal(4, 4, 3, 3)], {"storage": Storage.parse(tag)})
    yield Case("Unpack", [normal(2, 3)])
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        hidden, steps, batch, features = 3, 4, 2, 5
        x = normal(steps, batch, features)
        w = normal(count, 4 * hidden, features, seed=1)
        r = normal(count, 4 * hidden, hidden, seed=2)
        b = normal(count, 8 * hidden, seed=3)
        state = [normal(count, batch, hidden, seed=seed) for seed in (4, 5)]
        lens = np.array([2, 4], np.int32)
        p = normal(count, 3 * hidden, seed=6)
        attrs = {"hidden_size": hidden, "direction": direction}
        for rest in (
            [],
            [b],
            [b, lens],
            [b, None, *state],
            [b, lens, *state, p],
            [None, None, None, None, p],
        ):
            yield Case("LSTM", [x, w, r, *rest], attrs, rtol=1e-4, atol=1e-5)


def all_cases() -> list[Case]:
    """Every case, in the order of the families."""
    families = (
        _elementwise,
        _broadcast,
        _convolution,
        _transposed,
        _pools,
        _reductions,
        _products,
        _products_of_bytes,
        _movement,
        _indexing,
        _rest,
        normalization_cases,
        indexing_cases,
        code_cases,
        pointwise_cases,
        quantized_cases,
        recurrent_cases,
        selection_cases,
        image_cases,
        product_and_loss_cases,
        attention_cases,
        linear_attention_cases,
        transform_cases,
        spatial_cases,
    )
    return [case for family in families for case in family()]
