"""Graph pass: 3x3 convolutions by Winograd's algorithm where the target expects it to be faster.

    %y = Conv(%x, %w, %b) {strides=[1,1], ...}   ->   %y = WinogradConv(%x, %u, %b) {tile=2}

1. %w is a Constant: %u is computed at once. Weights that are inputs are left alone.
2. Groups, strides and dilations other than 1, and kernels other than 3x3, are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.ir import Constant, Function
from tilewright.ops.winograd import ALGORITHMS, suits, transform_weights
from tilewright.passes.base import FunctionPass
from tilewright.passes.costs import Costs, choose_algorithm


@dataclass(frozen=True)
class Winograd(FunctionPass):
    """costs: says for which convolutions the algorithm pays. Run before storages are chosen."""

    name: ClassVar[str] = "winograd"
    costs: Costs

    def transform(self, function: Function) -> bool:
        products = [node for node in function.nodes if suits(node)]
        algorithms = [(node, choose_algorithm(node, self.costs)) for node in products]
        chosen = [(node, ALGORITHMS[name]) for node, name in algorithms if name in ALGORITHMS]
        for node, tile in chosen:
            weights = node.operand(1)
            assert isinstance(weights, Constant)
            pads = {"pads": node.attrs["pads"]} if node.attrs.get("pads") else {}
            node.attrs = {**pads, "padded_by_halo": False, "tile": tile}
            node.op = "WinogradConv"
            transformed = transform_weights(weights.data, tile)
            node.inputs[1] = function.constant(transformed, f"{weights.name}:winograd{tile}")
        return bool(chosen)
