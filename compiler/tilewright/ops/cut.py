"""Declarations of Cut and Uncut; their rules, and what they are for, stand in `bounded.py`."""

from __future__ import annotations

from tilewright.ops.bounded import cut_array, cut_types, same_memory, uncut_array, uncut_types
from tilewright.ops.declaration import operator
from tilewright.ops.operator import Attr, Operand

operator(
    "Cut",
    "the first n elements of an axis: its size becomes bounded, `count` names it",
    [Operand("x"), Operand("n", ("i64",))],
    [Operand("y")],
    cut_types,
    cut_array,
    {"axis": Attr("int", required=True), "count": Attr("str", required=True)},
    compute=same_memory,
)
operator(
    "Uncut",
    "the tensor at its bound, a plain shape again; what lies beyond the counts has no meaning",
    [Operand("x")],
    [Operand("y")],
    uncut_types,
    uncut_array,
    {"shape": Attr("ints", required=True)},
    compute=same_memory,
)
