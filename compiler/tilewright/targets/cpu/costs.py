"""What the passes ask the CPU target: cycles of algorithms and of Packs, and the storages of `wishes.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.dtypes import BF16, F32, I32
from tilewright.graph.ir import Constant, Node
from tilewright.machine import Machine
from tilewright.ops import planes, quantized_products
from tilewright.ops.declaration import attributes
from tilewright.ops.winograd import suits
from tilewright.storage import Wish
from tilewright.targets.cpu import winograd_costs, wishes
from tilewright.targets.cpu.codegen_dot import PAIR, PAIRS, QUAD, QUADS
from tilewright.targets.cpu.products import columns_of, depth_of, summed_of, tiles_of, vectors_of
from tilewright.targets.cpu.schedules import amx_blocks
from tilewright.targets.cpu.schedules.tiles import panel_vectors
from tilewright.types import TensorType

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


@dataclass(frozen=True)
class CpuCosts:
    """Implements passes/costs.py for a machine and a mode of precision."""

    machine: Machine
    precision: str = "fp32"

    def wish(self, node: Node) -> Wish | None:
        return wishes.wish(node, self.machine)

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """Cycles of the multiply-adds of a product, and of what an algorithm needs besides."""
        if node.operand(0).dtype == I32:
            return self._of_bytes(node)
        if node.operand(0).dtype != F32:
            return {}
        depth = depth_of(node)
        a_cycle = UNITS * self.machine.lanes(32)
        found = {"direct": node.output.type.size * depth / a_cycle}
        if suits(node):
            for name in winograd_costs.ALLOWED[self.precision]:
                found[name] = winograd_costs.operations(node, name) / a_cycle
        if columns_of(node) > 1:  # of a single one, no loop is left that could be an instruction
            found |= {**self._in_bf16(node, found["direct"]), **self._in_planes(node)}
        return found if len(found) > 1 else {}

    def _in_bf16(self, node: Node, direct: float) -> Mapping[str, float]:
        """Products of bf16 in tiles or in pairs."""
        if self.precision != "bf16":
            return {}
        blocks = tiles_of(node, self.machine, PAIR)
        if blocks is not None:
            return {"bf16": blocks.cycles}
        if not self._has_pairs(node):
            return {}
        cycles, terms = direct / PAIR, summed_of(node)
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
        blocks = tiles_of(node, self.machine, PAIR, copies)
        if blocks is None:
            return {}
        whole = x.shape[1 if node.op == "Conv" else -1] % self.machine.lanes(32) == 0
        split = x.type.size * ((F32.bytes + copies * BF16.bytes) / BYTES if whole else SPLIT_APART)
        return {planes.ALGORITHM: blocks.cycles + split}

    def _of_bytes(self, node: Node) -> Mapping[str, float]:
        """Products of i32, and of the bytes that they were cast from; what is cast is written and read."""
        if not self._has_quads(node):
            return {}
        x, vectors = node.operand(0).type, vectors_of(node.output.type.size, self.machine) * depth_of(node)
        depthwise = node.op == "Conv" and attributes(node)["group"] > 1 and node.operand(1).shape[1] == 1
        return {
            "direct": vectors * I32_PRODUCT / UNITS + 2 * x.bytes / BYTES,
            quantized_products.ALGORITHM: vectors * (BYTE_PRODUCT if depthwise else 1 / QUAD) / UNITS,
        }

    def _has_quads(self, node: Node) -> bool:
        """Whether a product of bytes has a template."""
        weights = node.operand(1)
        if not QUADS.on(self.machine) or node.op not in ("Conv", "MatMul") or columns_of(node) == 1:
            return False
        if node.op == "MatMul":
            return len(weights.shape) == 2 and len(node.operand(0).shape) > 1
        group, lanes = attributes(node)["group"], self.machine.lanes(32)
        depthwise = group == weights.shape[0] == node.operand(0).shape[1]
        fits = weights.shape[1] % QUAD == 0 and panel_vectors(1, weights.shape[0] // group, group, lanes)
        return group == 1 or depthwise or bool(fits)

    def _has_pairs(self, node: Node) -> bool:
        """Whether a product from pairs of bf16 has a template and gains."""
        if not PAIRS.on(self.machine) or node.attrs.get("transA"):
            return False
        many = node.output.type.size >= FEW_ROWS * columns_of(node)
        if many and self.machine.units.get(amx_blocks.PAIRS.name):
            return False
        if node.op == "Conv":
            fits = summed_of(node) % PAIR == 0 or attributes(node)["group"] == 1
            return fits and self.wish(node) is not None
        return summed_of(node) % PAIR == 0 and self.wish(node) is not None

    def pack_cost(self, type: TensorType) -> float:
        """Cycles of a transposition."""
        return (BYTE_PACK if type.dtype.bytes == 1 else PACK) * type.size
