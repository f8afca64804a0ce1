"""A small pattern rewriter: patterns are data, rules turn a match into a new value.

    CONV_RELU = op("Relu", op("Conv", ANY, constant("w"), ANY, once=True, name="conv"), name="relu")

matches a Relu whose operand is a Conv with constant weights and no other user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.graph.ir import Constant, Function, Node, Value


@dataclass(frozen=True)
class Pattern:
    """What a value must look like.

    kind: `any` matches every value, an omitted operand (None) too; `constant` a Constant; `op` the first
    result of a node. op: the node's operator, or several alternatives. operands: patterns of the first ones;
    further operands may be anything. once: the value has one use and is no output of the function.
    commutes: two operands match in either order. name: under which the matched value is bound; a name that
    occurs twice must match the same value.
    """

    kind: str
    op: tuple[str, ...] = ()
    operands: tuple[Pattern, ...] = ()
    once: bool = False
    commutes: bool = False
    name: str = ""


Bindings = Mapping[str, Value | None]

ANY = Pattern("any")


def any_value(name: str) -> Pattern:
    """Any value, bound to a name."""
    return Pattern("any", name=name)


def constant(name: str = "") -> Pattern:
    """A constant."""
    return Pattern("constant", name=name)


def op(
    ops: str | Sequence[str], *operands: Pattern, once: bool = False, commutes: bool = False, name: str = ""
) -> Pattern:
    """The first result of a node of one of the operators."""
    names = (ops,) if isinstance(ops, str) else tuple(ops)
    return Pattern("op", names, operands, once, commutes, name)


class Uses:
    """How often each value of a function is used: by operands, and as a function output."""

    def __init__(self, function: Function) -> None:
        self._counts: dict[int, int] = {}
        self._outputs = {id(value) for value in function.outputs}
        self.add_nodes(function.nodes)

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Count the operands of further nodes."""
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    self._counts[id(value)] = self._counts.get(id(value), 0) + 1

    def move(self, old: Value, new: Value) -> None:
        """The uses of `old` become uses of `new`. Uses by nodes that die still count: never too few."""
        self._counts[id(new)] = self._counts.get(id(new), 0) + self._counts.get(id(old), 0)
        if id(old) in self._outputs:
            self._outputs.add(id(new))

    def single(self, value: Value) -> bool:
        """One operand reads the value, and the function does not return it."""
        return self._counts.get(id(value), 0) == 1 and id(value) not in self._outputs


def match(pattern: Pattern, value: Value | None, uses: Uses | None = None) -> dict[str, Value | None] | None:
    """The bindings under which a value matches, or None. `uses` is needed by patterns with `once`."""
    return _match(pattern, value, uses, {})


def _match(
    pattern: Pattern, value: Value | None, uses: Uses | None, bound: dict[str, Value | None]
) -> dict[str, Value | None] | None:
    if not _matches_alone(pattern, value, uses):
        return None
    if pattern.name:
        if pattern.name in bound and bound[pattern.name] is not value:
            return None
        bound = {**bound, pattern.name: value}
    if not pattern.operands:
        return bound
    assert value is not None
    assert value.producer is not None  # an op pattern has matched
    operands = value.producer.inputs
    if len(operands) < len(pattern.operands):
        return None
    found = _match_all(pattern.operands, operands, uses, bound)
    if found is None and pattern.commutes:
        found = _match_all(pattern.operands, operands[1::-1], uses, bound)
    return found


def _match_all(
    patterns: Sequence[Pattern],
    operands: Sequence[Value | None],
    uses: Uses | None,
    bound: dict[str, Value | None],
) -> dict[str, Value | None] | None:
    current: dict[str, Value | None] | None = bound
    for pattern, operand in zip(patterns, operands, strict=False):
        if current is None:
            return None
        current = _match(pattern, operand, uses, current)
    return current


def _matches_alone(pattern: Pattern, value: Value | None, uses: Uses | None) -> bool:
    if pattern.kind == "any" and not pattern.once:
        return True
    if value is None or (pattern.kind == "constant" and not isinstance(value, Constant)):
        return False
    if pattern.kind == "op":
        node = value.producer
        if node is None or node.op not in pattern.op or value.index != 0:
            return False
    if not pattern.once:
        return True
    if uses is None:
        raise ValueError("a pattern with once=True needs the uses of the function")
    return uses.single(value)


@dataclass(frozen=True)
class Rule:
    """One rewriting.

    pattern: of the root's first result. rewrite: (function, root, bindings) -> the value that replaces that
    result, or None to decline. It appends new nodes to the function, which during a sweep ends just before
    the root, and must not change the matched nodes.
    """

    pattern: Pattern
    rewrite: Callable[[Function, Node, Bindings], Value | None]


def rewrite_until_fixpoint(function: Function, rules: Sequence[Rule], limit: int = 100) -> bool:
    """Apply rules, the first that matches at each node, until none matches; True when anything changed.

    A sweep visits every node once, producers first, and replaces uses as it goes, so that its cost is linear
    in the nodes; nodes that lost their last use are removed after it. Bodies of nodes are not entered. Raises
    RuntimeError when rules keep undoing each other for `limit` sweeps.
    """
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.pattern.kind != "op":
            raise ValueError("the root of a rule must be an operator")
        for name in rule.pattern.op:
            by_op.setdefault(name, []).append(rule)
    for sweep in range(limit):
        if not _sweep(function, by_op):
            return sweep > 0
    raise RuntimeError(f"function '{function.name}': rules did not come to rest after {limit} sweeps")


def _sweep(function: Function, by_op: Mapping[str, Sequence[Rule]]) -> bool:
    replaced: dict[int, Value] = {}
    uses = Uses(function)
    pending, function.nodes = function.nodes, []
    for node in pending:
        node.inputs = [_latest(value, replaced) for value in node.inputs]
        first = len(function.nodes)
        value = _apply(function, node, by_op.get(node.op, ()), uses)
        if value is not None and value is not node.outputs[0]:
            replaced[id(node.outputs[0])] = value
            uses.add_nodes(function.nodes[first:])
            uses.move(node.outputs[0], value)
        function.nodes.append(node)
    function.outputs = [_require(_latest(value, replaced)) for value in function.outputs]
    if replaced:
        remove_unused(function)
    return bool(replaced)


def _apply(function: Function, node: Node, rules: Sequence[Rule], uses: Uses) -> Value | None:
    for rule in rules:
        bindings = match(rule.pattern, node.outputs[0], uses)
        value = None if bindings is None else rule.rewrite(function, node, bindings)
        if value is not None:
            return value
    return None


def _latest(value: Value | None, replaced: Mapping[int, Value]) -> Value | None:
    while value is not None and id(value) in replaced:
        value = replaced[id(value)]
    return value


def _require(value: Value | None) -> Value:
    assert value is not None
    return value


def remove_unused(function: Function) -> bool:
    """Remove nodes none of whose results is used; True when there were any. One backward pass."""
    needed = {id(value) for value in function.outputs}
    kept: list[Node] = []
    for node in reversed(function.nodes):
        if any(id(value) in needed for value in node.outputs):
            needed |= {id(value) for value in node.inputs if value is not None}
            kept.append(node)
    changed = len(kept) != len(function.nodes)
    function.nodes = kept[::-1]
    return changed
