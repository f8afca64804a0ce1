"""What the OpenCL template wants of storages: weights in vectors of output channels, padding as a halo."""

from __future__ import annotations

from string import ascii_lowercase

from tilewright.dtypes import F32
from tilewright.graph.ir import Node
from tilewright.storage import PLAIN, Storage, Wish

LANES = 8  # output channels of a vector


def wish_of(node: Node) -> Wish | None:
    """Plain activations with zeros around them where a convolution pads; None for all other nodes."""
    if node.op != "Conv" or node.operand(0).dtype != F32:
        return None
    spatial = len(node.operand(0).shape) - 2
    pads = node.attrs["pads"] or (0,) * (2 * spatial)
    around = tuple(zip(pads[:spatial], pads[spatial:], strict=True))
    halo = ((0, 0), (0, 0), *around) if any(pads) else ()
    return Wish((PLAIN, _weights(node), None), PLAIN, halo)


def _weights(node: Node) -> Storage:
    """[O/8][taps][I][8 of O], so that a tap's lanes lie side by side."""
    weights = node.operand(1)
    if node.attrs["group"] != 1 or weights.shape[0] % LANES:
        return PLAIN
    return Storage(f"A{ascii_lowercase[2 : len(weights.shape)]}b{LANES}a")


def packed_lanes(storage: Storage) -> int:
    """Lanes of output channels that weights in this storage keep together; 0 for plain ones."""
    return LANES if storage.tag.endswith(f"b{LANES}a") else 0
