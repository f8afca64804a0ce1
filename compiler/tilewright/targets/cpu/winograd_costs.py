"""What Winograd's algorithm costs on this target, by the side of its tiles, in multiply-adds of its products.

Tiles that hang over the edge of the result count as whole ones: 14 results are four tiles of 4, and 7 of 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.graph.ir import Node
from tilewright.ops.winograd import ALGORITHMS, tiles
from tilewright.ops.winograd_matrices import FILTERINGS

# Algorithms whose error each precision mode allows (docs/decisions/0005 and 0007).
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "fp32": ("winograd",),
    "fp32-fast": ("winograd", "winograd4"),
    "bf16": ("winograd", "winograd4"),
}
# What the transforms of a tile take for a channel of the input, and for one of the results: arithmetic, loads
# and stores of 16 or 36 elements. What passes between the stages goes through the second-level cache.
TRANSFORMS = {2: (120, 100), 4: (200, 200)}
# What it takes to bring a weight from the last cache, which counts where results are few. With these
# constants the choice among direct and both tiles was the fastest for 38 of 39 layers of extents 2 to 64.
READ_WEIGHT = 3


def operations(node: Node, algorithm: str) -> float:
    """Of a 3x3 convolution of stride 1; weights beyond those of the direct convolution are read besides."""
    tile = ALGORITHMS[algorithm]
    (batch, channels), (columns, *extents) = node.operand(0).shape[:2], node.output.shape[1:]
    positions = FILTERINGS[tile].window ** 2
    count = batch * prod(tiles(extent, tile) for extent in extents)
    into, back = TRANSFORMS[tile]
    products = positions * channels * columns * count
    transforms = count * (into * channels + back * columns)
    return products + transforms + (positions - 9) * channels * columns * READ_WEIGHT
