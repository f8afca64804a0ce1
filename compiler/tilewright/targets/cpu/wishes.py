"""What the CPU templates want of storages: channels last, weights in panels of whole vectors."""

from __future__ import annotations

from math import inf, prod
from string import ascii_lowercase

from tilewright.dtypes import BF16, F32, I8, U8, DType
from tilewright.graph.ir import Node
from tilewright.machine import Machine
from tilewright.ops.declaration import attributes
from tilewright.ops.windows import windows
from tilewright.ops.winograd import tiles
from tilewright.storage import PLAIN, Storage, Wish
from tilewright.targets.cpu.cache_sets import channel_gap
from tilewright.targets.cpu.codegen_dot import PAIR, QUAD, QUADS
from tilewright.targets.cpu.products import tiles_of, vectors_of
from tilewright.targets.cpu.schedules.contraction import long_row_axis
from tilewright.targets.cpu.schedules.tiles import panel_vectors, tile_for

# Cycles a vector of results and a tap that channels-last templates save against plain ones, measured:
# depth-wise and pooling windows of stride 1 and above, and products over channels.
WINDOW_GAIN, STRIDED_GAIN, PRODUCT_GAIN = 0.5, 2.0, 3.0
POOLS = ("MaxPool", "AveragePool")
PLANE_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


def wish(node: Node, machine: Machine) -> Wish | None:
    """Storages that the best template for a node reads and writes; None where it takes what there is."""
    if node.bodies or not node.outputs:
        return None
    if node.op == "Conv":
        return _convolution(node, machine)
    if node.op == "WinogradConv":
        return _winograd(node, machine)
    if node.op == "Patches":
        return _patches(node)
    if node.op in POOLS:
        last = channels_last(len(node.output.shape))
        taps = prod(node.attrs["kernel_shape"])
        return Wish((last,), last, gain=WINDOW_GAIN * taps * vectors_of(node.output.type.size, machine))
    if node.op in PLANE_REDUCTIONS:
        return _plane_reduction(node)
    return _product(node, machine) if node.op in ("Gemm", "MatMul") else None


def _convolution(node: Node, machine: Machine) -> Wish | None:
    x, w, y = node.operand(0), node.operand(1), node.output
    attrs = attributes(node)
    rank, group = len(x.shape), attrs["group"]
    terms = _terms(x.dtype, w.dtype, attrs["wide"], machine)
    if not terms:
        return None
    last, over = channels_last(rank), windows("Conv", x.shape, w.shape[2:], attrs)
    halo = _halo([(a.before, a.after) for a in over], channel_gap(x.type, over[-1], machine))
    fill = attrs["pad_value"] if any(attrs["pads"] or ()) else None
    if group == x.shape[1] == w.shape[0]:
        spatial = ascii_lowercase[2:rank]
        gain = WINDOW_GAIN if all(a.stride == 1 for a in over) else STRIDED_GAIN
        gain *= vectors_of(y.type.size, machine) * w.type.size / w.shape[0]
        return Wish((last, Storage(f"{spatial}ba"), None), last, halo, gain, fill)
    depth, columns = w.type.size // w.shape[0] // terms, w.shape[0] // group
    lanes = machine.lanes(32)
    blocks = tiles_of(node, machine, terms)
    best = tile_for(y.shape[2:], columns, depth, machine).vectors
    width = blocks.columns if blocks else panel_vectors(best, columns, group, lanes) * lanes
    if not width or w.shape[1] % terms:
        return None
    gain = PRODUCT_GAIN * depth * vectors_of(y.type.size, machine) if terms == 1 else inf
    packed = panels(f"a{ascii_lowercase[2:rank]}b", "a", width, terms, blocks.chunk if blocks else 0)
    return Wish((last, packed, None), last, halo, gain, fill)


def _terms(x: DType, w: DType, wide: bool, machine: Machine) -> int:
    """How many terms of a product the template adds at once; 0 where there is no template."""
    if wide and (x, w) == (U8, I8):
        return QUAD if QUADS.on(machine) else 0
    if wide and (x, w) == (BF16, BF16):
        return PAIR
    return int((x, w) == (F32, F32))


def _winograd(node: Node, machine: Machine) -> Wish:
    """As a convolution; the halo also covers the windows of tiles that hang over the edge."""
    y, last = node.output, channels_last(4)
    over = windows("WinogradConv", node.operand(0).shape, (3, 3), attributes(node))
    side = attributes(node)["tile"]
    halo = _halo([(a.before, a.after + tiles(a.outputs, side) * side - a.outputs) for a in over])
    rows = tuple(tiles(extent, side) for extent in y.shape[2:])
    tile = tile_for(rows, y.shape[1], node.operand(0).shape[1], machine)
    width = tile.vectors * machine.lanes(32)
    return Wish((last, Storage(f"aBc{width}b"), None), last, halo)


def _plane_reduction(node: Node) -> Wish | None:
    x = node.operand(0)
    spatial = tuple(range(2, len(x.shape)))
    if len(x.shape) < 3 or tuple(node.attrs["axes"]) != spatial:
        return None
    return Wish((channels_last(len(x.shape)),), PLAIN, gain=float(x.type.size))


def _product(node: Node, machine: Machine) -> Wish | None:
    a, b, y = node.operand(0), node.operand(1), node.output
    terms = _terms(a.dtype, b.dtype, attributes(node)["wide"], machine)
    if not terms or len(b.shape) != 2 or len(a.shape) < 2:
        return None
    transposed = bool(node.attrs.get("transB", 0))
    depth, rest = divmod(b.shape[1] if transposed else b.shape[0], terms)
    if rest:
        return None
    row = long_row_axis(y.shape, range(len(y.shape) - 1))
    tile = tile_for(y.shape[row : row + 1], y.shape[-1], depth, machine)
    blocks = tiles_of(node, machine, terms)
    width = blocks.columns if blocks else tile.vectors * machine.lanes(32)
    order, column = ("ab", "a") if transposed else ("ba", "b")
    return Wish((PLAIN, panels(order, column, width, terms), PLAIN), PLAIN)


def panels(order: str, column: str, width: int, terms: int, chunk: int = 0) -> Storage:
    """Weights in blocks of `width` columns; `terms` rows, along the last axis of `order`, side by side.

    chunk: if not 0, the rows of one tap are in blocks of so many, and blocks of all taps follow each other.
    """
    blocked, last = order.replace(column, column.upper()), order[-1]
    if terms == 1:
        return Storage(f"{blocked}{width}{column}")
    if chunk:
        taps = blocked.replace(column.upper(), "").replace(last, "")
        return Storage(
            f"{column.upper()}{last.upper()}{taps}{chunk // terms}{last}{width}{column}{terms}{last}"
        )
    return Storage(f"{blocked[:-1]}{last.upper()}{width}{column}{terms}{last}")


def _patches(node: Node) -> Wish | None:
    """Copies, equally good either way: the product that reads them decides."""
    x, attrs = node.operand(0), attributes(node)
    if x.dtype != F32:
        return None
    last = channels_last(len(x.shape))
    over = windows("Patches", x.shape, attrs["kernel_shape"], attrs)
    return Wish((last,), last, _halo([(a.before, a.after) for a in over]), gain=0.0)


def channels_last(rank: int) -> Storage:
    """[N, C, ...] with C innermost."""
    letters = ascii_lowercase[:rank]
    return Storage(f"{letters[0]}{letters[2:]}{letters[1]}")


def _halo(spatial: list[tuple[int, int]], gap: int = 0) -> tuple[tuple[int, int], ...]:
    """Zeros around the spatial axes of [N, C, ...] and `gap` of them after C; () when there are none."""
    around = [(0, gap), *spatial]
    return ((0, 0), *around) if any(map(any, around)) else ()
