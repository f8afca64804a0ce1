"""Products as costs and wishes see them: columns, terms, and the AMX tiles that would do them."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from tilewright.graph.ir import Node
from tilewright.machine import Machine
from tilewright.ops.declaration import attributes
from tilewright.ops.windows import windows
from tilewright.targets.cpu.cache_sets import channel_gap
from tilewright.targets.cpu.schedules import amx_blocks
from tilewright.targets.cpu.schedules.amx_blocks import Blocks, Product, Unit, blocks_for


def columns_of(node: Node) -> int:
    """Of the matrix of weights; a vector is one column."""
    if node.op == "Conv":
        return node.output.shape[1]
    return node.output.shape[-1] if len(node.operand(1).shape) > 1 else 1


def summed_of(node: Node) -> int:
    """Terms of each sum of a product along one axis: channels of a tap."""
    return node.operand(1).shape[1] if node.op == "Conv" else depth_of(node)


def depth_of(node: Node) -> int:
    """Terms of each sum of a product."""
    weights = node.operand(1)
    if node.op == "Conv":
        return weights.type.size // weights.shape[0]
    return node.operand(0).shape[0 if node.attrs.get("transA") else -1]


def tiles_of(node: Node, machine: Machine, terms: int, copies: int = 1) -> Blocks | None:
    """AMX tiles for a product; None where the machine has none, or vectors do better.

    terms: that are added at once; copies: values of bf16 that stand for each value of the operands.
    """
    y, weights, unit = node.output, node.operand(1), amx_blocks.UNITS.get(terms)
    if unit is None:
        return None
    if node.op == "Conv":
        product = _convolution(node, machine, unit, copies)
    elif node.attrs.get("transA") or len(weights.shape) != 2:
        return None
    else:
        rows = y.shape[:-1]
        product = Product(rows, rows, y.shape[-1], channels=copies * depth_of(node))
    return blocks_for(product, machine, unit)


def _convolution(node: Node, machine: Machine, unit: Unit, copies: int) -> Product:
    """A convolution as it will be, channels last and filled up to whole groups of terms."""
    x, weights, y, group = node.operand(0), node.operand(1), node.output, attributes(node)["group"]
    over = windows("Conv", x.shape, weights.shape[2:], attributes(node))
    pitches = [0, 0]
    for outer, inner in pairwise(over):
        step = outer.stride * (inner.extent + inner.before + inner.after)
        pitches.append(0 if step % inner.stride else step // inner.stride)
    channels = copies * weights.shape[1]
    alone = group == 1 and over[-1].dilation == 1 and not channel_gap(x.type, over[-1], machine)
    return Product(
        (y.shape[0], *y.shape[2:]),
        tuple(pitches),
        y.shape[1],
        group,
        prod(weights.shape[2:]),
        channels + (-channels % unit.group if group == 1 else 0),
        over[-1].kernel if alone else 1,
    )


def vectors_of(elements: int, machine: Machine) -> float:
    """Vectors of 32-bit elements."""
    return elements / machine.lanes(32)
