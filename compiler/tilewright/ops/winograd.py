"""Winograd's minimal filtering for 3x3 convolutions (Lavin and Gray, arXiv 1509.09308): fewer
multiplications.

A tile of m x m results needs a x a multiplications a channel, a = m + 2, instead of 9 m m:

    Y = A^T [ (G g G^T) * (B^T d B) ] A

with g the filter, d the a x a window of the input, * element by element. Summed over channels, the middle is
one matrix product for each of the a a positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.errors import VerifyError
from tilewright.expr import Expr, add, binary, const, floordiv, logical_and, mod, mul, read, select, sub
from tilewright.graph.ir import Constant, Node
from tilewright.ops.convolution import finished
from tilewright.ops.declaration import attributes, operator, required
from tilewright.ops.operator import Attr, Attrs, Fusion, Operand
from tilewright.ops.windows import windows
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

# F(2, 3); rows of B^T, G and A^T
INPUT = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
WEIGHTS = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
OUTPUT = ((1, 1, 1, 0), (0, 1, -1, -1))
TILE = len(OUTPUT)  # results along one side
WINDOW = len(INPUT)  # elements of the input along one side


def suits(node: Node) -> bool:
    """Whether a node is a 3x3 convolution of stride 1 with constant weights, without groups and dilations."""
    if node.op != "Conv" or not isinstance(node.inputs[1], Constant) or node.inputs[1].shape[2:] != (3, 3):
        return False
    attrs = attributes(node)
    ones = all(n == 1 for key in ("strides", "dilations") for n in attrs[key] or ())
    return ones and attrs["group"] == 1


def transform_weights(w: np.ndarray) -> np.ndarray:
    """G g G^T of weights [O, I, 3, 3], as [a a, O, I]: in float64, rounded once."""
    outputs, channels, rows, columns = w.shape
    filters = w.reshape(outputs * channels, rows * columns).T.astype(np.float64)
    transformed = np.kron(WEIGHTS, WEIGHTS) @ filters  # one matrix product for both sides
    return transformed.astype(w.dtype).reshape(WINDOW * WINDOW, outputs, channels)


def tiles(extent: int) -> int:
    """Tiles that cover an extent of results."""
    return -(-extent // TILE)


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, u, bias = required(types, 0), required(types, 1), types[2]
    if x.rank != 4 or u.rank != 3 or u.shape[0] != WINDOW * WINDOW or u.shape[2] != x.shape[1]:
        raise VerifyError(
            f"WinogradConv: expected x [N, C, H, W] and transformed weights [{WINDOW * WINDOW}, O, C], "
            f"found {list(x.shape)} and {list(u.shape)}"
        )
    if bias is not None and bias.shape != u.shape[1:2]:
        raise VerifyError(f"WinogradConv: bias has shape {list(bias.shape)}, expected [{u.shape[1]}]")
    over = windows("WinogradConv", x.shape, (3, 3), attrs)
    return (TensorType(x.dtype, (x.shape[0], u.shape[1], *(a.outputs for a in over))),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, u, bias = required(arrays, 0), required(arrays, 1), arrays[2]
    over = windows("WinogradConv", x.shape, (3, 3), attrs)
    counts = [tiles(a.outputs) for a in over]
    pads = [(a.before, c * TILE + 2 - a.before - a.extent) for a, c in zip(over, counts, strict=True)]
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    view = np.lib.stride_tricks.sliding_window_view(padded, (WINDOW, WINDOW), (2, 3))[:, :, ::TILE, ::TILE]
    b, a = np.asarray(INPUT, x.dtype), np.asarray(OUTPUT, x.dtype)
    v = np.einsum("xi,nctuij,yj->xynctu", b, view, b).reshape(WINDOW * WINDOW, *view.shape[:4])
    m = np.einsum("poc,pnctu->pnotu", u, v, optimize=True).reshape(WINDOW, WINDOW, -1, u.shape[1], *counts)
    y = np.einsum("rx,xynotu,sy->notrus", a, m, a)
    y = y.reshape(*y.shape[:2], counts[0] * TILE, counts[1] * TILE)
    y = y[:, :, : over[0].outputs, : over[1].outputs]
    return (y if bias is None else y + bias.reshape(-1, 1, 1),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """Three stages: transformed input, products summed over channels, transformed back."""
    x, u, bias = required(tensors, 0), required(tensors, 1), tensors[2]
    over = windows("WinogradConv", x.shape, (3, 3), attrs)
    counts = [tiles(a.outputs) for a in over]
    batch, channels = x.shape[:2]

    def window(n: Expr, c: Expr, row: Expr, column: Expr) -> Expr:
        positions = [sub(row, const(over[0].before)), sub(column, const(over[1].before))]
        if attrs["padded_by_halo"]:
            return read(x, [n, c, *positions])
        inside = [
            binary(op, p, const(limit))
            for p, extent in zip(positions, x.shape[2:], strict=True)
            for op, limit in (("ge", 0), ("lt", extent))
        ]
        return select(logical_and(*inside), read(x, [n, c, *positions]), const(0, x.dtype))

    def transformed(p: Expr, n: Expr, th: Expr, tw: Expr, c: Expr) -> Expr:
        rows, columns = floordiv(p, const(WINDOW)), mod(p, const(WINDOW))
        top, left = mul(th, const(TILE)), mul(tw, const(TILE))
        return combined(
            INPUT,
            (rows, columns),
            lambda i, j: window(n, c, add(top, const(i)), add(left, const(j))),
        )

    v = compute((WINDOW * WINDOW, batch, *counts, channels), transformed, "input")
    k = reduce_axis(channels, "product.k")
    m = compute(
        (WINDOW * WINDOW, batch, *counts, u.shape[1]),
        lambda p, n, th, tw, o: sum_over(mul(read(v, [p, n, th, tw, k.var]), read(u, [p, o, k.var])), k),
        "product",
    )

    def back(n: Expr, o: Expr, h: Expr, w: Expr) -> Expr:
        side = const(TILE)
        th, tw = floordiv(h, side), floordiv(w, side)
        return combined(
            OUTPUT,
            (mod(h, side), mod(w, side)),
            lambda i, j: read(m, [const(i * WINDOW + j), n, th, tw, o]),
        )

    y = compute(types[0].shape, back, "output")
    return (finished(y, bias, x.dtype, "winograd"),)


def combined(
    matrix: Sequence[Sequence[int]], at: tuple[Expr, Expr], element: Callable[[int, int], Expr]
) -> Expr:
    """sum of matrix[r][i] * matrix[s][j] * element(i, j) for the row (r, s) that `at` names.

    The rows become a chain of selects, which is decided once the loops over them are written out.
    """
    rows, columns = at

    def row(r: int, s: int) -> Expr:
        total: Expr | None = None
        for i, a in enumerate(matrix[r]):
            for j, b in enumerate(matrix[s]):
                if a * b:
                    total = accumulate(total, element(i, j), a * b)
        assert total is not None
        return total

    last = len(matrix) - 1

    def choose(r: int, s: int) -> Expr:
        if s < last:
            return select(binary("eq", columns, const(s)), row(r, s), choose(r, s + 1))
        return row(r, s)

    result = choose(last, 0)
    for r in reversed(range(last)):
        result = select(binary("eq", rows, const(r)), choose(r, 0), result)
    return result


def accumulate(total: Expr | None, term: Expr, sign: int) -> Expr:
    """total + sign * term, for signs 1 and -1."""
    if total is None:
        return term if sign > 0 else sub(const(0, term.dtype), term)
    return add(total, term) if sign > 0 else sub(total, term)


operator(
    "WinogradConv",
    "3x3 convolution of stride 1 by F(2x2, 3x3); weights are transformed: [16, O, I]",
    [Operand("x", ("f32", "f64")), Operand("u", ("f32", "f64")), Operand("b", ("f32", "f64"), optional=True)],
    [Operand("y", ("f32", "f64"))],
    _infer,
    _evaluate,
    {"pads": Attr("ints"), "padded_by_halo": Attr("bool", False)},
    Fusion.COMPLEX,
    compute=_compute,
)
