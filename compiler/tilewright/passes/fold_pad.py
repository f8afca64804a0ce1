"""Explicit padding folded into the windows that read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from tilewright.dtypes import DType
from tilewright.graph.ir import Constant, Function, Node
from tilewright.ops.declaration import attributes
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import holds_only
from tilewright.passes.editor import Editor, apply_everywhere, merged_origin
from tilewright.storage import PLAIN


@dataclass(frozen=True)
class FoldPad(FunctionPass):
    """Let Conv and pooling pad by themselves.

    1. Conv(Pad(x, 0))                                            ->  Conv(x), pads added up
    2. AveragePool(Pad(x, 0)) that counts its own padding         ->  AveragePool(x), pads added up
    3. AveragePool(Pad(x, 0)) without padding of its own          ->  AveragePool(x), counting the padding
    4. MaxPool(Pad(x, lowest))                                    ->  MaxPool(x), pads added up

    Only constant padding of spatial axes, by no negative amount, is folded. Never: a value other than the one
    the window pads with (MaxPool pads with the lowest value, so Pad by 0 stays), a pooling with ceil_mode
    (whose last windows depend on which part is padding), pads as large as the pooling window. Idempotent;
    O(n).
    """

    name: ClassVar[str] = "fold_pad"

    def transform(self, function: Function) -> bool:
        return apply_everywhere(function, _fold)


def _fold(editor: Editor, node: Node) -> None:
    rule = _RULES.get(node.op)
    pad = node.operand(0).producer if rule is not None else None
    if rule is None or pad is None or pad.op != "Pad":
        return
    if any(value.type.storage != PLAIN for value in (pad.operand(0), pad.output, node.output)):
        return
    outer = _spatial_pads(pad)
    changed = None if outer is None else rule(node, pad, outer)
    if changed is None:
        return
    operands = (pad.operand(0), *node.inputs[1:])
    result = editor.insert(
        node, node.op, *operands, origin=merged_origin(pad, node), **(node.attrs | changed)
    )
    editor.replace(node.output, result)


Pads = tuple[int, ...]
Changed = dict[str, object]


def _spatial_pads(pad: Node) -> Pads | None:
    """Begins then ends of the spatial axes of an [N, C, ...] tensor; None when anything else is padded."""
    attrs, rank = attributes(pad), pad.operand(0).type.rank
    pads = [int(amount) for amount in attrs["pads"]]
    begins, ends = pads[:rank], pads[rank:]
    if attrs["mode"] != "constant" or rank < 3 or min(pads) < 0 or any(begins[:2] + ends[:2]):
        return None
    return (*begins[2:], *ends[2:])


def _own_pads(node: Node, rank: int) -> Pads:
    return tuple(attributes(node).get("pads") or (0,) * (2 * rank))


def _sum(first: Pads, second: Pads) -> Pads:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _is_zero(pad: Node) -> bool:
    value = pad.inputs[1] if len(pad.inputs) > 1 else None
    return value is None or holds_only(value, 0)


def _is_lowest(pad: Node) -> bool:
    value = pad.inputs[1] if len(pad.inputs) > 1 else None
    return isinstance(value, Constant) and holds_only(value, _lowest(value.dtype))


def _lowest(dtype: DType) -> float:
    return -inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def _inside(pads: Pads, window: Sequence[int]) -> bool:
    """Whether every window of the pooling still holds an element."""
    return all(amount < extent for amount, extent in zip(pads, (*window, *window), strict=True))


def _window(node: Node) -> list[int]:
    attrs = attributes(node)
    kernel = list(attrs["kernel_shape"])
    dilations = attrs.get("dilations") or (1,) * len(kernel)
    return [(extent - 1) * step + 1 for extent, step in zip(kernel, dilations, strict=True)]


def _conv(node: Node, pad: Node, outer: Pads) -> Changed | None:
    attrs = attributes(node)
    if not _is_zero(pad) or attrs["padded_by_halo"] or attrs["pad_value"]:
        return None
    return {"pads": _sum(_own_pads(node, len(outer) // 2), outer)}


def _average_pool(node: Node, pad: Node, outer: Pads) -> Changed | None:
    attrs = attributes(node)
    own = _own_pads(node, len(outer) // 2)
    total = _sum(own, outer)
    if not _is_zero(pad) or attrs["ceil_mode"] or not _inside(total, _window(node)):
        return None
    if any(own) and not attrs["count_include_pad"]:
        return None
    return {"pads": total, "count_include_pad": 1}


def _max_pool(node: Node, pad: Node, outer: Pads) -> Changed | None:
    total = _sum(_own_pads(node, len(outer) // 2), outer)
    if not _is_lowest(pad) or attributes(node)["ceil_mode"] or not _inside(total, _window(node)):
        return None
    return {"pads": total}


_RULES = {"Conv": _conv, "AveragePool": _average_pool, "MaxPool": _max_pool}
