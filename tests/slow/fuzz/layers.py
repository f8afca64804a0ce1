"""Layers: convolutions, pools, products, reductions, normalisations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fuzz.drawing import Drawing, Tensor

COSTLY = 1_500_000  # multiplications of one layer


def image(d: Drawing, rank: int | None = None) -> Tensor:
    """Something to convolve: [N, C, spatial...] of float32."""
    x = d.pick(
        lambda t: t.dtype == "float32" and t.rank in ((3, 4, 5) if rank is None else (rank,)) and t.size > 0
    )
    if x is not None and d.chance(0.8):
        return d.tame(x)
    rank = rank or d.among((3, 4, 4, 4, 5))
    space = {3: 40, 4: 20, 5: 7}[rank]
    channels = d.among((1, 2, 3, 4, 5, 6, 8, 9, 16, 17, 32))
    return d.input(
        "float32", [d.among((1, 1, 2, 3)), channels, *(d.between(1, space) for _ in range(rank - 2))]
    )


def window(d: Drawing, x: Tensor, largest: int = 4) -> dict[str, Any] | None:
    """Kernel, strides, dilations and pads that fit; with what they make of the sizes as `sizes`."""
    space = x.shape[2:]
    kernel = [d.between(1, largest) for _ in space]
    strides = [d.among((1, 1, 2, 3)) for _ in space]
    dilations = [d.among((1, 1, 1, 2)) for _ in space]
    if d.chance(0.35):
        kernel, strides, dilations = [3] * len(space), [1] * len(space), [1] * len(space)
    extents = [(k - 1) * step + 1 for k, step in zip(kernel, dilations, strict=True)]
    pads = [d.between(0, k - 1) if d.chance(0.6) else 0 for k in (*kernel, *kernel)]
    if (
        d.chance(0.2)
        and all(step == 1 for step in dilations)
        and all(s <= k for s, k in zip(strides, kernel, strict=True))
    ):
        auto = d.among(("SAME_UPPER", "SAME_LOWER", "VALID"))
        sizes = [
            -(-n // s) if auto != "VALID" else (n - k) // s + 1
            for n, s, k in zip(space, strides, kernel, strict=True)
        ]
        if min(sizes) < 1:
            return None
        return {"kernel_shape": kernel, "strides": strides, "auto_pad": auto, "sizes": sizes}
    padded = [n + a + b for n, a, b in zip(space, pads[: len(space)], pads[len(space) :], strict=True)]
    if any(n < e for n, e in zip(padded, extents, strict=True)):
        return None
    sizes = [(n - e) // s + 1 for n, e, s in zip(padded, extents, strides, strict=True)]
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads, "sizes": sizes}


def conv(d: Drawing) -> None:
    x = image(d)
    found = window(d, x)
    if found is None:
        return
    sizes = found.pop("sizes")
    channels = x.shape[1]
    group = d.among([g for g in {1, 2, channels} if channels % g == 0] + [1])
    outputs = group * d.among((1, 2, 3, 4, 5, 8, 9, 16, 17, 33) if group < 4 else (1, 1, 2))
    weights = (outputs, channels // group, *found["kernel_shape"])
    if x.shape[0] * math.prod(sizes) * math.prod(weights) > COSTLY:
        return
    count = math.prod(weights[1:])
    w = d.weights("float32", weights, 1.0)
    b = d.weights("float32", (outputs,)) if d.chance(0.6) else None
    magnitude = x.magnitude * w.magnitude * math.sqrt(count) + 4
    y = d.one(
        "Conv",
        x,
        w,
        b,
        results=[("float32", (x.shape[0], outputs, *sizes))],
        magnitude=magnitude,
        group=group,
        **found,
    )
    follow(d, y)


def large_conv(d: Drawing) -> None:
    """3x3, stride 1, constant weights, enough channels: what Winograd's algorithm is for."""
    x = d.pick(lambda t: t.dtype == "float32" and t.rank == 4 and t.shape[1] >= 12 and min(t.shape[2:]) >= 3)
    if x is None or d.chance(0.3):
        sizes = (d.between(3, 21), d.between(3, 21))
        x = d.input("float32", (d.among((1, 1, 2)), d.among((12, 16, 17, 24, 32, 40)), *sizes))
    x = d.tame(x)
    pads = d.among(((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1), (0, 1, 2, 0), (2, 0, 1, 1)))
    high, wide = (n + pads[a] + pads[a + 2] - 2 for a, n in enumerate(x.shape[2:]))
    outputs = d.among((8, 16, 17, 24, 32, 33))
    if x.shape[0] * high * wide * x.shape[1] * outputs * 9 > 3 * COSTLY or x.size == 0:
        return
    w = d.constant(d.values("float32", (outputs, x.shape[1], 3, 3)) / 4)
    b = d.weights("float32", (outputs,)) if d.chance(0.6) else None
    magnitude = x.magnitude * w.magnitude * math.sqrt(9 * x.shape[1])
    result = ("float32", (x.shape[0], outputs, high, wide))
    y = d.one("Conv", x, w, b, results=[result], magnitude=magnitude, kernel_shape=(3, 3), pads=pads)
    follow(d, y)


def resize(d: Drawing) -> None:
    """Whole and broken factors, nearest and linear."""
    x = image(d, 4)
    scales = [1.0, 1.0, d.among((0.5, 1.5, 2.0, 2.0)), d.among((1.0, 2.0, 3.0))]
    shape = [int(n * s) for n, s in zip(x.shape, scales, strict=True)]
    if min(shape) < 1 or math.prod(shape) > 20000:
        return
    facts = d.among((
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ))  # fmt: skip
    if facts.get("coordinate_transformation_mode") == "align_corners" and any(
        n * s % 1 for n, s in zip(x.shape, scales, strict=True)
    ):  # ONNX Runtime aligns the whole size, ONNX the size before it is rounded
        facts = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    factors = d.constant(np.asarray(scales, np.float32))
    nearest = facts["mode"] == "nearest"
    d.one(
        "Resize",
        x,
        None,
        factors,
        results=[("float32", shape)],
        exact=nearest,
        magnitude=x.magnitude,
        **facts,
    )


def follow(d: Drawing, y: Tensor) -> None:
    """What comes behind a layer in real networks: normalisation, a residual, an activation."""
    if y.rank >= 2 and d.chance(0.3):
        y = normalised(d, y)
    if d.chance(0.3):
        fits = d.pick(lambda t: t.shape == y.shape and t.dtype == y.dtype and t.name != y.name)
        if fits is not None:
            y = d.one("Add", y, fits, magnitude=y.magnitude + fits.magnitude)
    if d.chance(0.5):
        hard = d.opset >= 14 and y.dtype == "float32"
        op = d.among(("Relu", "LeakyRelu", "Sigmoid", "HardSwish" if hard else "Elu"))
        d.one(op, y, magnitude=1.0 if op == "Sigmoid" else y.magnitude)


def conv_transpose(d: Drawing) -> None:
    x = image(d)
    space = x.shape[2:]
    kernel = [d.between(1, 4) for _ in space]
    strides = [d.among((1, 2, 2, 3)) for _ in space]
    dilations = [d.among((1, 1, 1, 2)) for _ in space]
    extents = [(k - 1) * step + 1 for k, step in zip(kernel, dilations, strict=True)]
    begins, ends = ([d.between(0, max(0, e - 1)) if d.chance(0.4) else 0 for e in extents] for _ in range(2))
    extra = [d.between(0, s - 1) if d.chance(0.3) else 0 for s in strides]
    sizes = [
        (n - 1) * s + o + e - a - b
        for n, s, o, e, a, b in zip(space, strides, extra, extents, begins, ends, strict=True)
    ]
    channels = x.shape[1]
    group = d.among([g for g in {1, 2, channels} if channels % g == 0] + [1])
    each = d.among((1, 2, 3, 5, 8))
    cost = x.size * each * math.prod(kernel)
    if min(sizes) < 1 or cost > COSTLY or math.prod(sizes) * each * group * x.shape[0] > 20000:
        return
    w = d.weights("float32", (channels, each, *kernel))
    b = d.weights("float32", (each * group,)) if d.chance(0.5) else None
    magnitude = x.magnitude * w.magnitude * math.sqrt(channels // group * math.prod(kernel)) + 4
    facts = {"strides": strides, "dilations": dilations, "pads": [*begins, *ends], "output_padding": extra}
    result = ("float32", (x.shape[0], each * group, *sizes))
    y = d.one("ConvTranspose", x, w, b, results=[result], magnitude=magnitude, group=group, **facts)
    follow(d, y)


def pool(d: Drawing) -> None:
    x = image(d)
    if d.chance(0.2):
        op = d.among(("GlobalAveragePool", "GlobalMaxPool"))
        d.one(
            op, x, results=[(x.dtype, (*x.shape[:2], *(1 for _ in x.shape[2:])))], exact=op == "GlobalMaxPool"
        )
        return
    found = window(d, x)
    if found is None:
        return
    sizes = found.pop("sizes")
    op = d.among(("MaxPool", "AveragePool", "LpPool") if d.opset >= 18 else ("MaxPool", "AveragePool"))
    if op == "AveragePool":
        found["count_include_pad"] = d.between(0, 1)
    if op != "MaxPool" and (d.opset < 19 or op == "LpPool"):
        if any(step != 1 for step in found.get("dilations", ())):
            return
        found.pop("dilations", None)
    facts = {"magnitude": 4 * x.magnitude} if op == "LpPool" else {}
    d.one(op, x, results=[(x.dtype, (*x.shape[:2], *sizes))], exact=op == "MaxPool", **facts, **found)


def matmul(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "float32", "float64") and t.rank >= 1)
    if x is None:
        return
    x = d.tame(x)
    k, n = x.shape[-1], d.among((1, 2, 3, 5, 8, 16, 17, 33))
    batch = x.shape[:-2] if x.rank >= 2 else ()
    if math.prod(x.shape) * n > COSTLY:
        return
    form = d.between(0, 3)
    if form == 0:
        shape, result = (k,), x.shape[:-1]
    elif form == 1 and batch:
        shape = (*(s if d.chance(0.7) else 1 for s in batch), k, n)
        result = (*x.shape[:-1], n)
    else:
        shape, result = (k, n), (*x.shape[:-1], n)
    w = d.weights(x.dtype, shape)
    magnitude = x.magnitude * w.magnitude * math.sqrt(max(k, 1)) + 1
    follow(d, d.one("MatMul", x, w, results=[(x.dtype, result)], magnitude=magnitude))


def gemm(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "float64") and t.rank == 2)
    if x is None:
        x = d.input("float32", d.dims(2))
    x = d.tame(x)
    trans_a, trans_b = d.between(0, 1), d.between(0, 1)
    m, k = x.shape[::-1] if trans_a else x.shape
    n = d.among((1, 3, 8, 10, 17, 33))
    if m * k * n > COSTLY or 0 in x.shape:
        return
    w = d.weights(x.dtype, (n, k) if trans_b else (k, n))
    c = d.weights(x.dtype, d.among(((n,), (m, n), (1, n), (m, 1), ()))) if d.chance(0.6) else None
    facts: dict[str, Any] = {"alpha": 0.5} if d.chance(0.3) else {}
    facts |= {"beta": d.among((0.5, 2.0))} if d.chance(0.3) else {}
    magnitude = x.magnitude * w.magnitude * math.sqrt(k) + 8
    y = d.one(
        "Gemm",
        x,
        w,
        c,
        results=[(x.dtype, (m, n))],
        magnitude=magnitude,
        transA=trans_a,
        transB=trans_b,
        **facts,
    )
    follow(d, y)


def einsum(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype == "float32" and t.rank == 3 and t.size > 0)
    if x is None:
        return
    x = d.tame(x)
    a, b, c = x.shape
    n = d.among((1, 3, 8))
    equation, shape, result = d.among((
        ("abc,cn->abn", (c, n), (a, b, n)), ("abc,abn->acn", (a, b, n), (a, c, n)),
        ("abc,bc->ab", (b, c), (a, b)), ("abc,nbc->na", (n, b, c), (n, a)),
    ))  # fmt: skip
    w = d.weights("float32", shape)
    d.one(
        "Einsum",
        x,
        w,
        results=[("float32", result)],
        magnitude=x.magnitude * w.magnitude * 8,
        equation=equation,
    )


SUMS = ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd")


def reduction(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "float64", "float16", "int32", "int64"))
    if x is None:
        return
    op = d.among((*SUMS, "ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean")) if x.is_float else "ReduceSum"
    if op == "ReduceProd":
        x = d.tame(x, 1.0)
    if op in ("ReduceLogSumExp", "ReduceSumSquare", "ReduceL2"):
        x = d.tame(x, 20.0)
    axes = sorted(d.random.sample(range(x.rank), d.between(0, x.rank)))
    kept = d.between(0, 1)
    over = axes or list(range(x.rank))
    if any(x.shape[a] == 0 for a in over) and op != "ReduceSum":
        return
    shape = [1 if a in over else s for a, s in enumerate(x.shape) if kept or a not in over]
    count = math.prod(x.shape[a] for a in over)
    named = [a if d.chance(0.7) else a - x.rank for a in axes]
    exact = op in ("ReduceMax", "ReduceMin")
    largest = {"ReduceProd": 1.0, "ReduceSumSquare": x.magnitude**2 * count, "ReduceMean": x.magnitude}.get(
        op, x.magnitude * (1 if exact else max(count, 1)) + 8
    )
    result = [(x.dtype, shape)]
    if x.dtype == "float16" and largest > 1000:
        return
    if d.opset >= 18 or op == "ReduceSum":
        operand = d.integers(named) if named else None
        d.one(op, x, operand, results=result, exact=exact, magnitude=largest, keepdims=kept)
    else:
        facts = {"axes": named} if named else {}
        d.one(op, x, results=result, exact=exact, magnitude=largest, keepdims=kept, **facts)


def place(d: Drawing) -> None:
    """ArgMax, ArgMin, TopK and Hardmax, of exact values only: comparisons decide."""
    x = d.pick(lambda t: t.exact and t.dtype in ("float32", "int32", "int64") and t.rank >= 1 and t.size > 0)
    if x is None:
        return
    axis = d.between(0, x.rank - 1)
    op = d.among(("ArgMax", "ArgMin", "TopK", "Hardmax") if x.is_float else ("ArgMax", "ArgMin", "TopK"))
    if op == "Hardmax":
        d.one(op, x, exact=True, axis=axis)
    elif op == "TopK":
        k = d.between(1, x.shape[axis])
        shape = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
        largest = d.between(0, 1)
        d.node(
            op,
            [x, d.integers([k])],
            [(x.dtype, shape), ("int64", shape)],
            exact=True,
            axis=axis,
            largest=largest,
        )
    else:
        kept = d.between(0, 1)
        shape = [1 if a == axis else s for a, s in enumerate(x.shape) if kept or a != axis]
        last = {"select_last_index": 1} if d.chance(0.3) else {}
        d.one(op, x, results=[("int64", shape)], axis=axis, keepdims=kept, magnitude=40.0, **last)


def running(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "float64", "int32", "int64") and t.rank >= 1)
    if x is None:
        return
    axis = d.between(0, x.rank - 1)
    magnitude = x.magnitude * max(1, x.shape[axis])
    facts = {"exclusive": d.between(0, 1), "reverse": d.between(0, 1)}
    d.one("CumSum", x, d.constant(np.asarray(axis, np.int64)), magnitude=magnitude, **facts)


def softmax(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "float32", "float64", "float16") and t.rank >= 1)
    if x is None:
        return
    op = d.among(("Softmax", "Softmax", "LogSoftmax"))
    axis = d.between(-x.rank, x.rank - 1)
    d.one(op, d.tame(x, 30.0), magnitude=1.0 if op == "Softmax" else 70.0, axis=axis)


def normalised(d: Drawing, x: Tensor) -> Tensor:
    """BatchNormalization of a tensor with channels."""
    c = (x.shape[1],)
    spread = d.constant((np.abs(d.values(x.dtype, c)) + 0.5).astype(x.dtype))
    scale, bias, mean = (d.weights(x.dtype, c) for _ in range(3))
    magnitude = 6 * (x.magnitude + 4) + 4
    return d.one("BatchNormalization", x, scale, bias, mean, spread, magnitude=magnitude)


def normalisation(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype == "float32" and t.rank >= 2 and t.size > 0)
    if x is None:
        return
    # A spread near zero would magnify every rounding: epsilon keeps it away.
    x = d.tame(x, 50.0)
    options = ["BatchNormalization", "LRN"]
    options += ["LayerNormalization"] * 2 if d.opset >= 17 else []
    options += ["InstanceNormalization"] if x.rank >= 3 else []
    op = d.among(options)
    if op == "BatchNormalization":
        normalised(d, x)
    elif op == "LRN":
        if x.rank == 4:  # ONNX Runtime knows no other rank
            d.one(op, x, size=d.among((1, 3, 5)), alpha=0.1, beta=0.75, bias=1.0)
    elif op == "LayerNormalization":
        axis = d.between(1, x.rank - 1)
        scale = d.weights("float32", x.shape[axis:])
        bias = d.weights("float32", x.shape[axis:]) if d.chance(0.6) else None
        d.one(op, x, scale, bias, axis=axis, epsilon=0.1, magnitude=40.0)
    else:
        scale, bias = (d.weights("float32", (x.shape[1],)) for _ in range(2))
        d.one(op, x, scale, bias, epsilon=0.1, magnitude=40.0)


DRAWS = (
    (conv, 6), (large_conv, 2), (resize, 1), (conv_transpose, 2), (pool, 3), (matmul, 3), (gemm, 2),
    (einsum, 1), (reduction, 3), (place, 1), (running, 1), (softmax, 2), (normalisation, 2),
)  # fmt: skip
