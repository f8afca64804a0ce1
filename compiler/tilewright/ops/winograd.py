"""Winograd's minimal filtering for 3x3 convolutions (Lavin and Gray, arXiv 1509.09308): fewer
multiplications.

A tile of m x m results needs a x a multiplications a channel, a = m + 2, instead of 9 m m:

    Y = A^T [ (G g G^T) * (B^T d B) ] A

with g the filter, d the a x a window of the input, * element by element. Summed over channels, the middle is
one matrix product for each of the a a positions. Matrices: winograd_matrices.py.
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
from tilewright.ops.windows import Window, windows
from tilewright.ops.winograd_matrices import FILTERINGS, Filtering, Matrix
from tilewright.tensor.ir import Tensor, compute, reduce_axis, sum_over
from tilewright.types import TensorType

# Names that costs give the algorithm, with the side of its tiles.
ALGORITHMS = {"winograd": 2, "winograd4": 4}


def suits(node: Node) -> bool:
    """Whether a node is a 3x3 convolution of stride 1 with constant weights, without groups and dilations."""
    if node.op != "Conv" or not isinstance(node.inputs[1], Constant) or node.inputs[1].shape[2:] != (3, 3):
        return False
    attrs = attributes(node)
    ones = all(n == 1 for key in ("strides", "dilations") for n in attrs[key] or ())
    return ones and attrs["group"] == 1


def transform_weights(w: np.ndarray, tile: int) -> np.ndarray:
    """G g G^T of weights [O, I, 3, 3], as [a a, O, I]: in float64, rounded once."""
    outputs, channels, rows, columns = w.shape
    g = FILTERINGS[tile].weights
    filters = w.reshape(outputs * channels, rows * columns).T.astype(np.float64)
    transformed = np.kron(g, g) @ filters  # one matrix product for both sides
    return transformed.astype(w.dtype).reshape(-1, outputs, channels)


def tiles(extent: int, tile: int) -> int:
    """Tiles that cover an extent of results."""
    return -(-extent // tile)


def _filtering(attrs: Attrs) -> Filtering:
    if attrs["tile"] not in FILTERINGS:
        known = ", ".join(map(str, FILTERINGS))
        raise VerifyError(f"WinogradConv: no tiles of side {attrs['tile']}; known sides: {known}")
    return FILTERINGS[attrs["tile"]]


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, u, bias = required(types, 0), required(types, 1), types[2]
    positions = _filtering(attrs).window ** 2
    if x.rank != 4 or u.rank != 3 or u.shape[0] != positions or u.shape[2] != x.shape[1]:
        raise VerifyError(
            f"WinogradConv: expected x [N, C, H, W] and transformed weights [{positions}, O, C], "
            f"found {list(x.shape)} and {list(u.shape)}"
        )
    if bias is not None and bias.shape != u.shape[1:2]:
        raise VerifyError(f"WinogradConv: bias has shape {list(bias.shape)}, expected [{u.shape[1]}]")
    over = windows("WinogradConv", x.shape, (3, 3), attrs)
    return (TensorType(x.dtype, (x.shape[0], u.shape[1], *(a.outputs for a in over))),)


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, u, bias = required(arrays, 0), required(arrays, 1), arrays[2]
    f = _filtering(attrs)
    tile, window = f.tile, f.window
    over = windows("WinogradConv", x.shape, (3, 3), attrs)
    counts = [tiles(a.outputs, tile) for a in over]
    pads = [(a.before, c * tile + 2 - a.before - a.extent) for a, c in zip(over, counts, strict=True)]
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    view = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))[:, :, ::tile, ::tile]
    b, a = np.asarray(f.input, x.dtype), np.asarray(f.output, x.dtype)
    v = np.einsum("xi,nctuij,yj->xynctu", b, view, b, optimize=True).reshape(window * window, *view.shape[:4])
    m = np.einsum("poc,pnctu->pnotu", u, v, optimize=True).reshape(window, window, -1, u.shape[1], *counts)
    y = np.einsum("rx,xynotu,sy->notrus", a, m, a, optimize=True)
    y = y.reshape(*y.shape[:2], counts[0] * tile, counts[1] * tile)
    y = y[:, :, : over[0].outputs, : over[1].outputs]
    return (y if bias is None else y + bias.reshape(-1, 1, 1),)


def _compute(
    tensors: Sequence[Tensor | None], attrs: Attrs, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """Three stages: transformed input, products summed over channels, transformed back."""
    x, u, bias = required(tensors, 0), required(tensors, 1), tensors[2]
    f = _filtering(attrs)
    v = _transformed(x, f, windows("WinogradConv", x.shape, (3, 3), attrs), attrs["padded_by_halo"])
    k = reduce_axis(x.shape[1], "product.k")
    m = compute(
        (*v.shape[:-1], u.shape[1]),
        lambda p, n, th, tw, o: sum_over(mul(read(v, [p, n, th, tw, k.var]), read(u, [p, o, k.var])), k),
        "product",
    )
    return (finished(_back(m, f, types[0].shape), bias, x.dtype, "winograd"),)


def _transformed(x: Tensor, f: Filtering, over: Sequence[Window], padded_by_halo: bool) -> Tensor:
    """B^T d B as [a a, N, tiles high, tiles wide, C]."""
    (batch, channels), side = x.shape[:2], const(f.tile)
    counts = [tiles(a.outputs, f.tile) for a in over]

    def element(n: Expr, c: Expr, row: Expr, column: Expr) -> Expr:
        positions = [sub(row, const(over[0].before)), sub(column, const(over[1].before))]
        if padded_by_halo:
            return read(x, [n, c, *positions])
        inside = [
            binary(op, p, const(limit))
            for p, extent in zip(positions, x.shape[2:], strict=True)
            for op, limit in (("ge", 0), ("lt", extent))
        ]
        return select(logical_and(*inside), read(x, [n, c, *positions]), const(0, x.dtype))

    def at_once(p: Expr, n: Expr, th: Expr, tw: Expr, c: Expr) -> Expr:
        r, s = floordiv(p, const(f.window)), mod(p, const(f.window))
        top, left = mul(th, side), mul(tw, side)
        return both_sides(f.input, r, s, lambda i, j: element(n, c, add(top, const(i)), add(left, const(j))))

    shape = (f.window**2, batch, *counts, channels)
    if f.in_one_step:
        return compute(shape, at_once, "input")

    def row(r: Expr, n: Expr, th: Expr, tw: Expr, j: Expr, c: Expr) -> Expr:
        top, column = mul(th, side), add(mul(tw, side), j)
        return one_side(f.input, r, parity, lambda i: element(n, c, add(top, const(i)), column))

    rows = compute((f.window, batch, *counts, f.window, channels), row, "input.rows")

    def then_columns(p: Expr, n: Expr, th: Expr, tw: Expr, c: Expr) -> Expr:
        r, s = floordiv(p, const(f.window)), mod(p, const(f.window))
        return one_side(f.input, s, parity, lambda j: read(rows, [r, n, th, tw, const(j), c]))

    return compute(shape, then_columns, "input")


def _back(m: Tensor, f: Filtering, shape: Sequence[int]) -> Tensor:
    """A^T m A as [N, O, H, W]."""
    (_, batch, *counts, columns), side = m.shape, const(f.tile)

    def at_once(n: Expr, o: Expr, h: Expr, w: Expr) -> Expr:
        th, tw = floordiv(h, side), floordiv(w, side)
        return both_sides(
            f.output,
            mod(h, side),
            mod(w, side),
            lambda i, j: read(m, [const(i * f.window + j), n, th, tw, o]),
        )

    if f.in_one_step:
        return compute(shape, at_once, "output")

    def row(r: Expr, n: Expr, th: Expr, tw: Expr, j: Expr, o: Expr) -> Expr:
        return one_side(f.output, r, pair, lambda i: read(m, [add(const(i * f.window), j), n, th, tw, o]))

    rows = compute((f.tile, batch, *counts, f.window, columns), row, "output.rows")

    def then_columns(n: Expr, o: Expr, h: Expr, w: Expr) -> Expr:
        at = [mod(h, side), n, floordiv(h, side), floordiv(w, side)]
        return one_side(f.output, mod(w, side), pair, lambda j: read(rows, [*at, const(j), o]))

    return compute(shape, then_columns, "output")


def both_sides(matrix: Matrix, r: Expr, s: Expr, element: Callable[[int, int], Expr]) -> Expr:
    """sum of matrix[r][i] * matrix[s][j] * element(i, j)."""

    def at(a: Sequence[float], b: Sequence[float]) -> Expr:
        factors = [x * y for x in a for y in b]
        return combined(factors, int, lambda place: element(*divmod(place, len(b))))

    return chosen(r, [chosen(s, [at(a, b) for b in matrix]) for a in matrix])


def one_side(matrix: Matrix, r: Expr, part: Callable[[int], int], element: Callable[[int], Expr]) -> Expr:
    """sum of matrix[r][i] * element(i)."""
    return chosen(r, [combined(row, part, element) for row in matrix])


def parity(i: int) -> int:
    """Parts of a row of B^T: even and odd powers; rows of points p and -p differ in one sign between them."""
    return i % 2


def pair(i: int) -> int:
    """Parts of a row of A^T: the columns of points p and -p, which differ in sign alone."""
    return (i + 1) // 2


def chosen(at: Expr, values: Sequence[Expr]) -> Expr:
    """values[at] as a chain of selects, which is decided once the loop over `at` is written out."""
    result = values[-1]
    for i, value in reversed(list(enumerate(values[:-1]))):
        result = select(binary("eq", at, const(i)), value, result)
    return result


def combined(row: Sequence[float], part: Callable[[int], int], element: Callable[[int], Expr]) -> Expr:
    """sum of row[i] * element(i), as a sum over the parts, each a factor times a sum.

    Where rows differ in the factors alone, code generators compute the sums once.
    """
    parts: dict[int, list[int]] = {}
    for i, factor in enumerate(row):
        if factor:
            parts.setdefault(part(i), []).insert(0, i)
    total: Expr | None = None
    for places in parts.values():
        factor = row[places[0]]
        inner: Expr | None = None
        for i in places:
            inner = accumulate(inner, row[i] / factor, element(i))
        assert inner is not None
        total = accumulate(total, factor, inner)
    assert total is not None
    return total


def accumulate(total: Expr | None, factor: float, term: Expr) -> Expr:
    """total + factor * term; additions that multiply are one operation on most machines, subtractions not."""
    if abs(factor) != 1:
        product = mul(const(factor, term.dtype), term)
        return product if total is None else add(total, product)
    if total is None:
        return term if factor > 0 else sub(const(0, term.dtype), term)
    return add(total, term) if factor > 0 else sub(total, term)


operator(
    "WinogradConv",
    "3x3 convolution of stride 1 by F(m x m, 3x3), m = tile; weights are transformed: [(m+2)(m+2), O, I]",
    [Operand("x", ("f32", "f64")), Operand("u", ("f32", "f64")), Operand("b", ("f32", "f64"), optional=True)],
    [Operand("y", ("f32", "f64"))],
    _infer,
    _evaluate,
    {"pads": Attr("ints"), "padded_by_halo": Attr("bool", False), "tile": Attr("int", 2)},
    Fusion.COMPLEX,
    compute=_compute,
)
