"""Gradient: reverse-mode differentiation of the nodes read so far, written out as ordinary nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import attributes

# from a node and the gradient of its result, the gradient of each operand, in the result's shape at first
Rule = Callable[[Site, Node, Value], Sequence[Value]]


@importer("Gradient", 1)
def gradient(site: Site) -> Sequence[Value | None]:
    """Of the sum of y's elements; what y does not depend on has the gradient 0."""
    xs, zs = site.attr("xs"), site.attr("zs", ())
    y = site.named(site.attr("y"))
    given = [site.named(name) for name in (*xs, *zs)]
    if y is None or y.producer is None:
        raise site.fail(f"y names '{site.attr('y')}', which no node of the main graph produces")
    if len(given) != len(site.operands) or any(a is not b for a, b in zip(given, site.operands, strict=True)):
        raise site.fail("its operands must be the tensors that xs and zs name")
    independent = [site.operand(index) for index in range(len(given))]
    wanted = independent[: len(xs)]
    found = _gradients(site, y, wanted, independent[len(xs) :])
    return [found.get(id(x)) or _zeros(site, x) for x in wanted]


def _zeros(site: Site, x: Value) -> Value:
    return site.emit("Expand", site.scalar(0, x), shape=x.shape)


def _gradients(site: Site, y: Value, xs: Sequence[Value], zs: Sequence[Value]) -> dict[int, Value]:
    """The gradients of all values between xs and y, by identity."""
    fixed = {id(value) for value in (*xs, *zs)}
    depends = {id(value) for value in xs}
    path: list[Node] = []
    for node in site.builder.function.nodes:
        open_ = [value for value in node.outputs if id(value) not in fixed]
        if open_ and any(id(value) in depends for value in node.inputs if value is not None):
            depends |= {id(value) for value in open_}
            path.append(node)
    ones = np.array(1).astype(y.dtype.numpy)
    found = {id(y): site.emit("Expand", site.constant(ones), shape=y.shape)}
    for node in reversed(path):
        if not any(id(value) in found for value in node.outputs):
            continue
        rule = _RULES.get(node.op)
        if rule is None or not node.outputs[0].dtype.is_float:
            raise site.fail(f"node '{node.name}': {node.op} on {node.outputs[0].dtype} has no gradient rule")
        parts = rule(site, node, found[id(node.outputs[0])])
        for operand, part in zip(node.inputs, parts, strict=True):
            if operand is not None and id(operand) in depends:
                part = _summed(site, part, operand.shape)
                known = found.get(id(operand))
                found[id(operand)] = part if known is None else site.emit("Add", known, part)
    return found


def _summed(site: Site, g: Value, shape: Sequence[int]) -> Value:
    """The gradient of an operand that was broadcast: the sum over its copies."""
    ahead = len(g.shape) - len(shape)
    spread = [n for n, extent in enumerate(g.shape) if n < ahead or shape[n - ahead] != extent]
    if spread:
        g = site.emit("ReduceSum", g, axes=tuple(spread), keepdims=True)
    return site.reshape(g, shape)


def _through(derivative: Callable[[Site, Value, Value, Value], Value]) -> Rule:
    """An operator of one operand, element by element; derivative: of site, x, y and the gradient of y."""
    return lambda site, node, g: [derivative(site, node.operand(0), node.outputs[0], g)]


def _product(site: Site, node: Node, g: Value) -> Sequence[Value]:
    return [site.emit("Mul", g, node.operand(1)), site.emit("Mul", g, node.operand(0))]


def _quotient(site: Site, node: Node, g: Value) -> Sequence[Value]:
    part = site.emit("Div", g, node.operand(1))
    return [part, site.emit("Neg", site.emit("Mul", part, node.outputs[0]))]


def _matrix_product(site: Site, node: Node, g: Value) -> Sequence[Value]:
    a, b = node.operand(0), node.operand(1)
    if min(len(a.shape), len(b.shape)) < 2:
        raise site.fail(f"node '{node.name}': the gradient of MatMul needs operands of rank 2 or more")
    return [site.emit("MatMul", g, _turned(site, b)), site.emit("MatMul", _turned(site, a), g)]


def _turned(site: Site, x: Value) -> Value:
    """Matrices transposed."""
    rank = len(x.shape)
    return site.emit("Transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _spread(site: Site, node: Node, g: Value) -> Value:
    """The gradient of a reduction's result for each element that went into it."""
    x, axes = node.operand(0), attributes(node)["axes"]
    kept = tuple(1 if n in axes else extent for n, extent in enumerate(x.shape))
    return site.emit("Expand", site.reshape(g, kept), shape=x.shape)


def _mean(site: Site, node: Node, g: Value) -> Sequence[Value]:
    share = prod(node.operand(0).shape) / max(1, prod(node.outputs[0].shape))
    return [site.emit("Div", _spread(site, node, g), site.scalar(share, g))]


def _transposition(site: Site, node: Node, g: Value) -> Sequence[Value]:
    return [site.emit("Transpose", g, perm=tuple(np.argsort(attributes(node)["perm"]).tolist()))]


def _less(site: Site, y: Value) -> Value:
    """1 - y."""
    return site.emit("Sub", site.scalar(1, y), y)


_RULES: dict[str, Rule] = {
    "Add": lambda site, node, g: [g, g],
    "Sub": lambda site, node, g: [g, site.emit("Neg", g)],
    "Mul": _product,
    "Div": _quotient,
    "MatMul": _matrix_product,
    "ReduceSum": lambda site, node, g: [_spread(site, node, g)],
    "ReduceMean": _mean,
    "Transpose": _transposition,
    "Reshape": lambda site, node, g: [site.reshape(g, node.operand(0).shape)],
    "Expand": lambda site, node, g: [g],
    "Identity": lambda site, node, g: [g],
    "Neg": _through(lambda site, x, y, g: site.emit("Neg", g)),
    "Exp": _through(lambda site, x, y, g: site.emit("Mul", g, y)),
    "Log": _through(lambda site, x, y, g: site.emit("Div", g, x)),
    "Sqrt": _through(lambda site, x, y, g: site.emit("Div", g, site.emit("Add", y, y))),
    "Abs": _through(lambda site, x, y, g: site.emit("Mul", g, site.emit("Sign", x))),
    "Sin": _through(lambda site, x, y, g: site.emit("Mul", g, site.emit("Cos", x))),
    "Cos": _through(lambda site, x, y, g: site.emit("Neg", site.emit("Mul", g, site.emit("Sin", x)))),
    "Reciprocal": _through(
        lambda site, x, y, g: site.emit("Neg", site.emit("Mul", g, site.emit("Mul", y, y)))
    ),
    "Tanh": _through(lambda site, x, y, g: site.emit("Mul", g, _less(site, site.emit("Mul", y, y)))),
    "Sigmoid": _through(lambda site, x, y, g: site.emit("Mul", g, site.emit("Mul", y, _less(site, y)))),
    "Softplus": _through(lambda site, x, y, g: site.emit("Mul", g, site.emit("Sigmoid", x))),
    "Relu": _through(
        lambda site, x, y, g: site.emit(
            "Where", site.emit("Greater", x, site.scalar(0, x)), g, site.scalar(0, x)
        )
    ),
}
