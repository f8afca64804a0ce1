"""Removal of operators that hand on what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import holds_only
from tilewright.passes.editor import Editor, apply_everywhere


@dataclass(frozen=True)
class Identity(FunctionPass):
    """Replace an operator by its operand when the two are the same tensor, element by element.

    1. Identity(x), Cast(x) to its own type, Tile(x) by ones, Expand and Reshape to the own shape   ->  x
    2. Transpose(x) by (0, 1, 2...), Slice(x) of everything, Pad(x) by zero, Split or Concat of one  ->  x
    3. Add(x, 0), Sub(x, 0), Mul(x, 1), Div(x, 1), Pow(x, 1), Max(x, -inf), Min(x, inf)              ->  x
    4. And(x, true), Or(x, false), Where(true, x, y), Where(false, y, x)                             ->  x
    5. Neg(Neg(x)), Not(Not(x)), Unpack(Pack(x)), Pack(Unpack(x))                                    ->  x
    6. reductions over no axis or axes of extent 1 that are kept, DepthToSpace by 1, Clip unbounded  ->  x

    Only when the types agree too, storage included: Add(x[3], 0[2,3]) repeats x and stays. x + 0 turns -0
    into 0, the one difference that is accepted. Idempotent; O(n).
    """

    name: ClassVar[str] = "identity"

    def transform(self, function: Function) -> bool:
        return apply_everywhere(function, _skip)


def _skip(editor: Editor, node: Node) -> None:
    rule = _RULES.get(node.op)
    if rule is None or len(node.outputs) != 1:
        return
    same = rule(node, attributes(node))
    if same is not None and same is not node.output and same.type == node.output.type:
        editor.replace(node.output, same)


Same = Callable[[Node, Mapping[str, Any]], Value | None]


def _first(node: Node, _: Mapping[str, Any]) -> Value | None:
    return node.operand(0)


def _if(holds: Callable[[Mapping[str, Any]], bool]) -> Same:
    return lambda node, attrs: node.operand(0) if holds(attrs) else None


def _neutral(number: float, commutative: bool = True) -> Same:
    """The operand beside a constant that holds only `number`."""

    def same(node: Node, _: Mapping[str, Any]) -> Value | None:
        first, second = node.operand(0), node.operand(1)
        if holds_only(second, number):
            return first
        return second if commutative and holds_only(first, number) else None

    return same


def _chosen(node: Node, _: Mapping[str, Any]) -> Value | None:
    condition = node.operand(0)
    if holds_only(condition, True):
        return node.operand(1)
    return node.operand(2) if holds_only(condition, False) else None


def _undoes(other: str) -> Same:
    """The operand of the producer when that is the inverse operator."""

    def same(node: Node, _: Mapping[str, Any]) -> Value | None:
        producer = node.operand(0).producer
        return producer.operand(0) if producer is not None and producer.op == other else None

    return same


def _over_ones(node: Node, attrs: Mapping[str, Any]) -> Value | None:
    x = node.operand(0)
    return x if all(x.shape[axis] == 1 for axis in attrs["axes"]) else None


def _single(node: Node, _: Mapping[str, Any]) -> Value | None:
    return node.operand(0) if len(node.inputs) == 1 else None


def _unbounded(node: Node, _: Mapping[str, Any]) -> Value | None:
    return node.operand(0) if all(value is None for value in node.inputs[1:]) else None


_RULES: dict[str, Same] = {
    "Identity": _first,
    "Cast": _if(lambda attrs: not attrs["flush"]),  # the types agree
    "Reshape": _first,
    "Expand": _first,
    "Split": _first,
    "Tile": _if(lambda attrs: all(count == 1 for count in attrs["repeats"])),
    "Transpose": _if(lambda attrs: list(attrs["perm"]) == sorted(attrs["perm"])),
    "Slice": _if(lambda attrs: all(step > 0 for step in attrs["steps"])),
    "Pad": _if(lambda attrs: not any(attrs["pads"])),
    "DepthToSpace": _if(lambda attrs: attrs["blocksize"] == 1),
    "Concat": _single,
    "Clip": _unbounded,
    "Add": _neutral(0),
    "Sub": _neutral(0, commutative=False),
    "Mul": _neutral(1),
    "Div": _neutral(1, commutative=False),
    "Pow": _neutral(1, commutative=False),
    "Max": _neutral(-inf),
    "Min": _neutral(inf),
    "And": _neutral(True),
    "Or": _neutral(False),
    "Where": _chosen,
    "Neg": _undoes("Neg"),
    "Not": _undoes("Not"),
    "Pack": _undoes("Unpack"),
    "Unpack": _undoes("Pack"),
    "ReduceSum": _over_ones,
    "ReduceMean": _over_ones,
    "ReduceMax": _over_ones,
    "ReduceMin": _over_ones,
    "ReduceProd": _over_ones,
}
