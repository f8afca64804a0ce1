"""Splits become slices, which fuse into what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.graph.ir import Function
from tilewright.passes.base import FunctionPass
from tilewright.passes.editor import Editor
from tilewright.storage import PLAIN


@dataclass(frozen=True)
class SliceSplits(FunctionPass):
    """Replace a Split by one Slice for each result that is used.

    1. i, f = Split(x[2,8]) {axis=1, sizes=[4,4]}    ->  i = Slice(x) {0:4 of axis 1}; f = Slice(x) {4:8}

    A kernel has one result after fusion, so a Split would stay a copy of its own; a Slice is an index
    expression inside the kernel that reads it, such as the cell of an LSTM. Idempotent; O(n).
    """

    name: ClassVar[str] = "slice_splits"

    def transform(self, function: Function) -> bool:
        editor = Editor(function)
        for node in function.nodes:
            if node.op != "Split" or any(v.type.storage != PLAIN for v in (node.operand(0), *node.outputs)):
                continue
            start = 0
            for value, size in zip(list(node.outputs), node.attrs["sizes"], strict=True):
                if editor.is_output(value) or editor.users(value):
                    bounds = _bounds(node.operand(0).shape, int(node.attrs["axis"]), start, size)
                    editor.replace(value, editor.insert(node, "Slice", node.operand(0), **bounds))
                start += size
            editor.erase_dead(node)
        return editor.finish()


def _bounds(shape: tuple[int, ...], axis: int, start: int, size: int) -> dict[str, Any]:
    """Slice attributes, every axis listed, that take `size` elements of one axis and all of the others."""
    starts = tuple(start if position == axis else 0 for position in range(len(shape)))
    ends = tuple(start + size if position == axis else extent for position, extent in enumerate(shape))
    return {"starts": starts, "ends": ends, "axes": tuple(range(len(shape))), "steps": (1,) * len(shape)}
