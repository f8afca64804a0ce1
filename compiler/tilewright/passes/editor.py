"""A function under change: uses are kept up to date, insertion and removal take constant time.

To find or replace uses otherwise, or to insert with `list.index`, walks the whole function each time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.operator import Builder
from tilewright.types import TensorType


class Editor:
    """Edits one function. New nodes and erasures reach `function.nodes` in `finish`, all else at once."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.changed = False
        self._uses: dict[Value, dict[Node, int]] = {}
        self._outputs = Counter(function.outputs)
        self._before: dict[Node, list[Node]] = {}
        self._erased: set[Node] = set()
        self._created: set[Value] = set()
        self._touched: dict[Node, None] = {}
        # Shares the name counter, so that names which the builder makes are fresh in `function`.
        self._staging = Function(function.name, _counter=function._counter)
        for node in function.nodes:
            self._add_uses(node)

    def alive(self, node: Node) -> bool:
        return node not in self._erased

    def users(self, value: Value) -> list[Node]:
        """The nodes that read `value`, each once; function outputs are not among them."""
        return list(self._uses.get(value, ()))

    def is_output(self, value: Value) -> bool:
        return value in self._outputs

    def only_use(self, value: Value) -> bool:
        """Whether exactly one operand of one node reads the value, and no function output does."""
        return not self.is_output(value) and sum(self._uses.get(value, {}).values()) == 1

    def insert(
        self,
        before: Node,
        op: str,
        *inputs: Value | None,
        origin: tuple[str, ...] | None = None,
        **attrs: Any,
    ) -> Value:
        """The result of a new node in front of `before`, from which the origin is taken unless given."""
        builder = Builder(self._staging, origin=before.origin if origin is None else origin)
        value = builder.op(op, *inputs, **attrs)
        self._place(before)
        return value

    def expand(self, before: Node, build: Callable[[Builder, Node], Sequence[Value]]) -> Sequence[Value]:
        """Whatever nodes `build` appends, in front of `before`; returns what it returns."""
        values = build(Builder(self._staging, origin=before.origin), before)
        self._place(before)
        return values

    def constant(self, data: np.ndarray, type: TensorType, name: str) -> Constant:
        """A new constant. data: plain, of the logical shape; rounded here to the element type."""
        array = type.storage.pack(np.asarray(data).astype(type.dtype.numpy, copy=False).reshape(type.shape))
        value = self.function.constant(array, name, type)
        self._created.add(value)
        return value

    def replace(self, old: Value, new: Value) -> None:
        """Let everything that reads `old` read `new`, and erase what becomes dead.

        The types must be equal, storage included; what this editor made inherits the old names.
        """
        if old.type != new.type:
            raise VerifyError(f"value '{old.name}' of type {old.type} cannot become one of type {new.type}")
        for user, count in self._uses.pop(old, {}).items():
            user.inputs = [new if value is old else value for value in user.inputs]
            uses = self._uses.setdefault(new, {})
            uses[user] = uses.get(user, 0) + count
            self._touch(user)
        if old in self._outputs:
            self._outputs[new] += self._outputs.pop(old)
            self.function.outputs = [new if value is old else value for value in self.function.outputs]
        if new in self._created:
            new.name, old.name = old.name, new.name
            take_name(new.producer, old.producer)
        self.changed = True
        self.erase_dead(old.producer)

    def erase_dead(self, node: Node | None) -> None:
        """Erase a node none of whose results is used, and its producers as they become dead."""
        pending: list[Node | None] = [node]
        while pending:
            node = pending.pop()
            if node is None or node in self._erased or not self._dead(node):
                continue
            self._erased.add(node)
            self.changed = True
            for value in node.inputs:
                if value is not None:
                    self._drop_use(value, node)
                    pending.append(value.producer)

    def take_touched(self) -> list[Node]:
        """Nodes created, or with changed operands or uses, since the last call."""
        touched = [node for node in self._touched if node not in self._erased]
        self._touched.clear()
        return touched

    def finish(self) -> bool:
        """Write the nodes back in order; tell whether anything changed."""
        if self.changed:
            self.function.nodes = list(self._ordered())
        return self.changed

    def _ordered(self) -> Iterator[Node]:
        stack = list(reversed(self.function.nodes))
        while stack:
            node = stack.pop()
            inserted = self._before.pop(node, None)
            if inserted:
                stack.append(node)
                stack.extend(reversed(inserted))
            elif node not in self._erased:
                yield node

    def _place(self, before: Node) -> None:
        nodes, self._staging.nodes = self._staging.nodes, []
        self._before.setdefault(before, []).extend(nodes)
        for node in nodes:
            self._created.update(node.outputs)
            self._add_uses(node)
            self._touch(node)
        self.changed |= bool(nodes)

    def _dead(self, node: Node) -> bool:
        return not any(self._uses.get(value) or value in self._outputs for value in node.outputs)

    def _add_uses(self, node: Node) -> None:
        for value in node.inputs:
            if value is not None:
                self._add_use(value, node)

    def _add_use(self, value: Value, node: Node) -> None:
        uses = self._uses.setdefault(value, {})
        uses[node] = uses.get(node, 0) + 1

    def _drop_use(self, value: Value, node: Node) -> None:
        uses = self._uses[value]
        uses[node] -= 1
        if not uses[node]:
            del uses[node]
        if value.producer is not None:
            self._touch(value.producer)
        for user in uses:
            self._touch(user)

    def _touch(self, node: Node) -> None:
        self._touched[node] = None


def take_name(new: Node | None, old: Node | None) -> None:
    """Let a node that replaces another bear its name."""
    if new is not None and old is not None:
        new.name, old.name = old.name, new.name


def merged_origin(*nodes: Node) -> tuple[str, ...]:
    """Names of the model's nodes that several nodes came from, each once."""
    return tuple(dict.fromkeys(name for node in nodes for name in node.origin))


Rule = Callable[[Editor, Node], None]


def apply_everywhere(function: Function, rule: Rule) -> bool:
    """Apply a rule to every node in order, and again to nodes around a change, until none changes.

    The rule edits through the Editor or leaves the node alone; it must not fire for ever.
    """
    editor = Editor(function)
    queue = deque(function.nodes)
    waiting = set(queue)
    while queue:
        node = queue.popleft()
        waiting.discard(node)
        if not editor.alive(node):
            continue
        rule(editor, node)
        fresh = [touched for touched in editor.take_touched() if touched not in waiting]
        queue.extend(fresh)
        waiting.update(fresh)
    return editor.finish()
