"""Fewer transposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.ops.operator import Fusion, operator_of
from tilewright.passes.base import FunctionPass
from tilewright.passes.constants import plain_array
from tilewright.passes.editor import Editor, apply_everywhere, merged_origin
from tilewright.storage import PLAIN
from tilewright.types import TensorType

_MAX_CHAIN = 32  # element-wise nodes that a transpose may sink through at once

Perm = tuple[int, ...]


@dataclass(frozen=True)
class SimplifyTranspose(FunctionPass):
    """Merge transposes, and sink them through element-wise nodes where that removes one.

    1. Transpose(Transpose(x, p), q)                 ->  Transpose(x, p[q]), or x when that is the identity
    2. Transpose(constant)                           ->  the transposed constant
    3. Add(Transpose(x, p), Transpose(z, p))         ->  Transpose(Add(x, z), p)
    4. Transpose(Relu(Transpose(x, p)), q)           ->  Relu(x) when q undoes p, else Transpose(Relu(x))
       through a chain of element-wise nodes too, all other operands constants, which are transposed instead:
       Transpose(Add(Transpose(x, p), c), q)         ->  Add(x, Transpose(c, inverse of p)) when q undoes p
    5. ReduceMean(Transpose(x, p), axes)             ->  Transpose(ReduceMean(x, p[axes])), less to move, or
       no Transpose at all when the axes that are left stay in order

    A transpose sinks only when it has no other reader. Nodes with chosen storages are left alone: there the
    transposes are free or wanted. Idempotent; O(n * length of the longest chain, at most 32).
    """

    name: ClassVar[str] = "simplify_transpose"

    def transform(self, function: Function) -> bool:
        return apply_everywhere(function, _simplify)


def _simplify(editor: Editor, node: Node) -> None:
    if not _all_plain(node):
        return
    if node.op == "Transpose":
        _merge(editor, node)
    elif _is_reduction(node):
        _sink_below_reduction(editor, node)
    elif _is_elementwise(node):
        _sink(editor, node)


def _merge(editor: Editor, node: Node) -> None:
    x, perm = node.operand(0), _perm(node)
    if isinstance(x, Constant):
        array = np.ascontiguousarray(plain_array(x).transpose(perm))
        editor.replace(node.output, editor.constant(array, node.output.type, x.name))
        return
    inner = x.producer
    if inner is None or inner.op != "Transpose":
        return
    source, inner_perm = inner.operand(0), _perm(inner)
    total = tuple(inner_perm[axis] for axis in perm)
    if total == tuple(range(len(total))) and source.type == node.output.type:
        editor.replace(node.output, source)
    else:
        origin = merged_origin(inner, node)
        editor.replace(node.output, editor.insert(node, "Transpose", source, origin=origin, perm=total))


def _sink(editor: Editor, node: Node) -> None:
    """Move the transposes in front of an element-wise node behind it."""
    perm = _common_perm(editor, node)
    if perm is None or not _removes_one(editor, node):
        return
    inverse = tuple(int(axis) for axis in np.argsort(perm))
    operands = [_before_transpose(editor, value, inverse) for value in node.inputs]
    inner = editor.insert(node, node.op, *operands, **node.attrs)
    editor.replace(node.output, editor.insert(node, "Transpose", inner, perm=perm))


def _sink_below_reduction(editor: Editor, node: Node) -> None:
    """Reduce over the axes that the transpose would move, and transpose what is left."""
    moved = node.operand(0)
    transpose = moved.producer
    if transpose is None or transpose.op != "Transpose" or not editor.only_use(moved):
        return
    attrs, perm = attributes(node), _perm(transpose)
    axes = tuple(sorted(perm[axis] for axis in attrs["axes"]))
    origin = merged_origin(transpose, node)
    reduced = editor.insert(
        node, node.op, transpose.operand(0), origin=origin, axes=axes, keepdims=attrs["keepdims"]
    )
    kept = perm if attrs["keepdims"] else tuple(axis for axis in perm if axis not in axes)
    order = tuple(int(position) for position in np.argsort(np.argsort(kept)))
    if order != tuple(range(len(order))):
        reduced = editor.insert(node, "Transpose", reduced, origin=origin, perm=order)
    editor.replace(node.output, reduced)


def _common_perm(editor: Editor, node: Node) -> Perm | None:
    """The permutation of all operands that are no constants, when they agree and nothing else reads them."""
    perms: set[Perm] = set()
    rank = node.output.type.rank
    for value in node.inputs:
        if value is None or isinstance(value, Constant):
            continue
        producer = value.producer
        if producer is None or producer.op != "Transpose" or value.type.rank != rank:
            return None
        if editor.is_output(value) or editor.users(value) != [node]:
            return None
        perms.add(_perm(producer))
    return perms.pop() if len(perms) == 1 else None


def _removes_one(editor: Editor, node: Node) -> bool:
    transposes = {v.producer for v in node.inputs if v is not None and not isinstance(v, Constant)}
    return len(transposes) > 1 or _meets_transpose(editor, node)


def _meets_transpose(editor: Editor, node: Node) -> bool:
    """Whether all readers absorb a transpose, perhaps after further element-wise nodes with constants."""
    for _ in range(_MAX_CHAIN):
        users = editor.users(node.output)
        if editor.is_output(node.output) or not users:
            return False
        if all(_absorbs(user) and _all_plain(user) for user in users):
            return True
        if len(users) > 1 or not _is_elementwise(users[0]) or not _all_plain(users[0]):
            return False
        (node,) = users
        variable = {value for value in node.inputs if value is not None and not isinstance(value, Constant)}
        if len(variable) > 1:
            return False
    return False


def _before_transpose(editor: Editor, value: Value | None, inverse: Perm) -> Value | None:
    """The operand whose transpose is `value`."""
    if value is None or (isinstance(value, Constant) and value.type.rank == 0):
        return value
    if isinstance(value, Constant):
        array = plain_array(value)
        full = array.reshape((1,) * (len(inverse) - array.ndim) + array.shape).transpose(inverse)
        return editor.constant(np.ascontiguousarray(full), TensorType(value.dtype, full.shape), value.name)
    assert value.producer is not None
    return value.producer.operand(0)


def _absorbs(node: Node) -> bool:
    return node.op == "Transpose" or _is_reduction(node)


def _is_reduction(node: Node) -> bool:
    return node.op.startswith("Reduce") and "axes" in node.attrs


def _is_elementwise(node: Node) -> bool:
    return not node.bodies and len(node.outputs) == 1 and operator_of(node).fusion <= Fusion.BROADCAST


def _all_plain(node: Node) -> bool:
    values: Sequence[Value | None] = (*node.inputs, *node.outputs)
    return all(value is None or value.type.storage == PLAIN for value in values)


def _perm(node: Node) -> Perm:
    return tuple(int(axis) for axis in node.attrs["perm"])
