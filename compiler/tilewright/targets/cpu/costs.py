"""What the CPU templates want of storages: channels last, weights in panels of whole vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf, prod
from string import ascii_lowercase

from tilewright.dtypes import BF16, F32, I8, I32, U8, DType
from tilewright.graph.ir import Constant, Node
from tilewright.machine import Machine
from tilewright.ops import planes, quantized_products
from tilewright.ops.declaration import attributes
from tilewright.ops.windows import windows
from tilewright.ops.winograd import suits, tiles
from tilewright.storage import PLAIN, Storage, Wish
from tilewright.targets.cpu import winograd_costs
from tilewright.targets.cpu.cache_sets import channel_gap
from tilewright.targets.cpu.codegen_dot import PAIR, PAIRS, QUAD, QUADS
from tilewright.targets.cpu.schedules import amx_blocks
from tilewright.targets.cpu.schedules.amx_blocks import Blocks, Product, Unit, blocks_for
from tilewright.targets.cpu.schedules.contraction import long_row_axis
from tilewright.targets.cpu.schedules.tiles import panel_vectors, tile_for
from tilewright.types import TensorType

# Cycles a vector of results and a tap that channels-last templates save against plain ones, measured:
# depth-wise and pooling windows of stride 1 and above, and products over channels.
WINDOW_GAIN, STRIDED_GAIN, PRODUCT_GAIN = 0.5, 2.0, 3.0
UNITS = 2  # vector multiply-adds of one cycle
BYTES = 8  # that a cycle moves between second-level cache and registers, read or written
SPLIT_APART = 12  # cycles of splitting a number into planes where a vector is not of one plane
# Processors with AMX issue products of pairs at half the rate of multiply-adds, others at the same. With AMX
# they gain only where reading the weights takes longer than multiplying them: for fewer rows than these.
FEW_ROWS = 8
# Modes that use planes of bf16. By emulation their error keeps the contract of fp32 too; fp32 takes them
# when that, and a gain, are measured on a processor with AMX.
IN_PLANES = ("fp32-fast",)
# Instructions for a vector of products and its sum: multiplication of i32 takes two, bytes are widened first.
I32_PRODUCT, BYTE_PRODUCT = 3, 3
PACK, BYTE_PACK = 0.6, 0.15  # cycles of a transposition for an element, measured
POOLS = ("MaxPool", "AveragePool")
PLANE_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


@dataclass(frozen=True)
class CpuCosts:
    """Implements passes/costs.py for a machine and a mode of precision."""

    machine: Machine
    precision: str = "fp32"

    def wish(self, node: Node) -> Wish | None:
        if node.bodies or not node.outputs:
            return None
        if node.op == "Conv":
            return self._convolution(node)
        if node.op == "WinogradConv":
            return self._winograd(node)
        if node.op == "Patches":
            return _patches(node)
        if node.op in POOLS:
            last = channels_last(len(node.output.shape))
            taps = prod(node.attrs["kernel_shape"])
            return Wish((last,), last, gain=WINDOW_GAIN * taps * self._vectors(node.output.type.size))
        if node.op in PLANE_REDUCTIONS:
            return self._plane_reduction(node)
        return self._product(node) if node.op in ("Gemm", "MatMul") else None

    def _convolution(self, node: Node) -> Wish | None:
        x, w, y = node.operand(0), node.operand(1), node.output
        attrs = attributes(node)
        rank, group = len(x.shape), attrs["group"]
        terms = self._terms(x.dtype, w.dtype, attrs["wide"])
        if not terms:
            return None
        last, over = channels_last(rank), windows("Conv", x.shape, w.shape[2:], attrs)
        halo = _halo([(a.before, a.after) for a in over], channel_gap(x.type, over[-1], self.machine))
        fill = attrs["pad_value"] if any(attrs["pads"] or ()) else None
        if group == x.shape[1] == w.shape[0]:
            spatial = ascii_lowercase[2:rank]
            gain = WINDOW_GAIN if all(a.stride == 1 for a in over) else STRIDED_GAIN
            gain *= self._vectors(y.type.size) * w.type.size / w.shape[0]
            return Wish((last, Storage(f"{spatial}ba"), None), last, halo, gain, fill)
        depth, columns = w.type.size // w.shape[0] // terms, w.shape[0] // group
        lanes = self.machine.lanes(32)
        blocks = self._blocks(node, terms)
        best = tile_for(y.shape[2:], columns, depth, self.machine).vectors
        width = blocks.columns if blocks else panel_vectors(best, columns, group, lanes) * lanes
        if not width or w.shape[1] % terms:
            return None
        gain = PRODUCT_GAIN * depth * self._vectors(y.type.size) if terms == 1 else inf
        packed = panels(f"a{ascii_lowercase[2:rank]}b", "a", width, terms, blocks.chunk if blocks else 0)
        return Wish((last, packed, None), last, halo, gain, fill)

    def _terms(self, x: DType, w: DType, wide: bool) -> int:
        """How many terms of a product the template adds at once; 0 where there is no template."""
        if wide and (x, w) == (U8, I8):
            return QUAD if QUADS.on(self.machine) else 0
        if wide and (x, w) == (BF16, BF16):
            return PAIR
        return int((x, w) == (F32, F32))

    def _winograd(self, node: Node) -> Wish:
        """As a convolution; the halo also covers the windows of tiles that hang over the edge."""
        y, last = node.output, channels_last(4)
        over = windows("WinogradConv", node.operand(0).shape, (3, 3), attributes(node))
        side = attributes(node)["tile"]
        halo = _halo([(a.before, a.after + tiles(a.outputs, side) * side - a.outputs) for a in over])
        rows = tuple(tiles(extent, side) for extent in y.shape[2:])
        tile = tile_for(rows, y.shape[1], node.operand(0).shape[1], self.machine)
        width = tile.vectors * self.machine.lanes(32)
        return Wish((last, Storage(f"aBc{width}b"), None), last, halo)

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """Cycles of the multiply-adds of a product, and of what an algorithm needs besides."""
        if node.operand(0).dtype == I32:
            return self._of_bytes(node)
        if node.operand(0).dtype != F32:
            return {}
        depth = _depth(node)
        a_cycle = UNITS * self.machine.lanes(32)
        found = {"direct": node.output.type.size * depth / a_cycle}
        if suits(node):
            for name in winograd_costs.ALLOWED[self.precision]:
                found[name] = winograd_costs.operations(node, name) / a_cycle
        if _columns(node) > 1:  # of a single one, no loop is left that could be an instruction
            found |= {**self._in_bf16(node, found["direct"]), **self._in_planes(node)}
        return found if len(found) > 1 else {}

    def _in_bf16(self, node: Node, direct: float) -> Mapping[str, float]:
        """Products of bf16 in tiles or in pairs."""
        if self.precision != "bf16":
            return {}
        blocks = self._blocks(node, PAIR)
        if blocks is not None:
            return {"bf16": blocks.cycles}
        if not self._has_pairs(node):
            return {}
        cycles, terms = direct / PAIR, _summed(node)
        if terms % PAIR:  # a channel of zeros; to fill up an operand moves bytes
            cycles *= (terms + 1) / terms
            cycles += 2 * node.operand(0).type.size * BF16.bytes / BYTES
        return {"bf16": cycles}

    def _in_planes(self, node: Node) -> Mapping[str, float]:
        """Products of bf16 planes in tiles; to split an operand moves bytes."""
        if self.precision not in IN_PLANES or not isinstance(node.operand(1), Constant):
            return {}
        if node.attrs.get("group", 1) != 1:
            return {}
        copies, x = len(planes.PLANE_PAIRS), node.operand(0)
        blocks = self._blocks(node, PAIR, copies)
        if blocks is None:
            return {}
        whole = x.shape[1 if node.op == "Conv" else -1] % self.machine.lanes(32) == 0
        split = x.type.size * ((F32.bytes + copies * BF16.bytes) / BYTES if whole else SPLIT_APART)
        return {planes.ALGORITHM: blocks.cycles + split}

    def _blocks(self, node: Node, terms: int, copies: int = 1) -> Blocks | None:
        """AMX tiles for a product; None where the machine has none, or vectors do better.

        terms: that are added at once; copies: values of bf16 that stand for each value of the operands.
        """
        y, weights, unit = node.output, node.operand(1), amx_blocks.UNITS.get(terms)
        if unit is None:
            return None
        if node.op == "Conv":
            product = self._windows_of_tiles(node, unit, copies)
        elif node.attrs.get("transA") or len(weights.shape) != 2:
            return None
        else:
            rows = y.shape[:-1]
            product = Product(rows, rows, y.shape[-1], channels=copies * _depth(node))
        return blocks_for(product, self.machine, unit)

    def _windows_of_tiles(self, node: Node, unit: Unit, copies: int) -> Product:
        """A convolution as it will be, channels last and filled up to whole groups of terms."""
        x, weights, y, group = node.operand(0), node.operand(1), node.output, attributes(node)["group"]
        over = windows("Conv", x.shape, weights.shape[2:], attributes(node))
        pitches = [0, 0]
        for outer, inner in pairwise(over):
            step = outer.stride * (inner.extent + inner.before + inner.after)
            pitches.append(0 if step % inner.stride else step // inner.stride)
        channels = copies * weights.shape[1]
        alone = group == 1 and over[-1].dilation == 1 and not channel_gap(x.type, over[-1], self.machine)
        return Product(
            (y.shape[0], *y.shape[2:]),
            tuple(pitches),
            y.shape[1],
            group,
            prod(weights.shape[2:]),
            channels + (-channels % unit.group if group == 1 else 0),
            over[-1].kernel if alone else 1,
        )

    def _of_bytes(self, node: Node) -> Mapping[str, float]:
        """Products of i32, and of the bytes that they were cast from; what is cast is written and read."""
        if not self._has_quads(node):
            return {}
        x, vectors = node.operand(0).type, self._vectors(node.output.type.size) * _depth(node)
        depthwise = node.op == "Conv" and attributes(node)["group"] > 1 and node.operand(1).shape[1] == 1
        return {
            "direct": vectors * I32_PRODUCT / UNITS + 2 * x.bytes / BYTES,
            quantized_products.ALGORITHM: vectors * (BYTE_PRODUCT if depthwise else 1 / QUAD) / UNITS,
        }

    def _has_quads(self, node: Node) -> bool:
        """Whether a product of bytes has a template."""
        weights = node.operand(1)
        if not QUADS.on(self.machine) or _columns(node) == 1:
            return False
        if node.op == "MatMul":
            return len(weights.shape) == 2 and len(node.operand(0).shape) > 1
        group, lanes = attributes(node)["group"], self.machine.lanes(32)
        depthwise = group == weights.shape[0] == node.operand(0).shape[1]
        fits = weights.shape[1] % QUAD == 0 and panel_vectors(1, weights.shape[0] // group, group, lanes)
        return node.op == "Conv" and (group == 1 or depthwise or bool(fits))

    def _has_pairs(self, node: Node) -> bool:
        """Whether a product from pairs of bf16 has a template and gains."""
        if not PAIRS.on(self.machine) or node.attrs.get("transA"):
            return False
        many = node.output.type.size >= FEW_ROWS * _columns(node)
        if many and self.machine.units.get(amx_blocks.PAIRS.name):
            return False
        if node.op == "Conv":
            fits = _summed(node) % PAIR == 0 or attributes(node)["group"] == 1
            return fits and self._convolution(node) is not None
        return _summed(node) % PAIR == 0 and self._product(node) is not None

    def pack_cost(self, type: TensorType) -> float:
        """Cycles of a transposition."""
        return (BYTE_PACK if type.dtype.bytes == 1 else PACK) * type.size

    def _vectors(self, elements: int) -> float:
        return elements / self.machine.lanes(32)

    def _plane_reduction(self, node: Node) -> Wish | None:
        x = node.operand(0)
        spatial = tuple(range(2, len(x.shape)))
        if len(x.shape) < 3 or tuple(node.attrs["axes"]) != spatial:
            return None
        return Wish((channels_last(len(x.shape)),), PLAIN, gain=float(x.type.size))

    def _product(self, node: Node) -> Wish | None:
        a, b, y = node.operand(0), node.operand(1), node.output
        terms = self._terms(a.dtype, b.dtype, attributes(node)["wide"])
        if not terms or len(b.shape) != 2 or len(a.shape) < 2:
            return None
        transposed = bool(node.attrs.get("transB", 0))
        depth, rest = divmod(b.shape[1] if transposed else b.shape[0], terms)
        if rest:
            return None
        row = long_row_axis(y.shape, range(len(y.shape) - 1))
        tile = tile_for(y.shape[row : row + 1], y.shape[-1], depth, self.machine)
        blocks = self._blocks(node, terms)
        width = blocks.columns if blocks else tile.vectors * self.machine.lanes(32)
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


def _columns(node: Node) -> int:
    """Of the matrix of weights; a vector is one column."""
    if node.op == "Conv":
        return node.output.shape[1]
    return node.output.shape[-1] if len(node.operand(1).shape) > 1 else 1


def _summed(node: Node) -> int:
    """Terms of each sum of a product along one axis: channels of a tap."""
    return node.operand(1).shape[1] if node.op == "Conv" else _depth(node)


def _depth(node: Node) -> int:
    """Terms of each sum of a product."""
    weights = node.operand(1)
    if node.op == "Conv":
        return weights.type.size // weights.shape[0]
    return node.operand(0).shape[0 if node.attrs.get("transA") else -1]


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
