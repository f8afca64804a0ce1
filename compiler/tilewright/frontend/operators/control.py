"""If: both branches become functions, and what they read from outside becomes their captures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dtypes import BOOL
from tilewright.frontend.operators.constants import extent_value
from tilewright.frontend.operators.control_scalars import scalar, single
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Body, Site
from tilewright.graph.ir import Function, Placeholder, Value
from tilewright.ops.control import with_bodies
from tilewright.ops.operator import Builder
from tilewright.types import Bounded


@importer("If", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def if_(site: Site) -> Sequence[Value]:
    """A branch that is known to be taken is read as if its nodes stood here."""
    known = site.known_if_constant(0)
    graphs = [site.graph("then_branch"), site.graph("else_branch")]
    if known is not None:
        return site.reader.inlined(graphs[0 if single(site, known, "condition") else 1])
    condition = scalar(site, 0, BOOL, "condition")
    bodies = [site.body(graph) for graph in graphs]
    captures = _join_captures(bodies)
    functions = [body.function for body in bodies]
    if len({len(function.outputs) for function in functions}) > 1:
        raise site.fail("its branches have different numbers of results")
    cuts = _level(site, functions)
    results = with_bodies(site.builder, "If", [condition, *captures], {}, tuple(functions))
    return _with_cuts(site, results, len(results) - len(cuts), cuts)


def _join_captures(bodies: Sequence[Body]) -> list[Value]:
    """Give all bodies the same inputs: what any of them captures. Returns the captured values."""
    outer = list(dict.fromkeys(value for body in bodies for value in body.captures))
    for body in bodies:
        inputs: list[Placeholder] = []
        for value in outer:
            own = body.captures.get(value)
            if not isinstance(own, Placeholder):
                own = Placeholder(body.function.fresh(value.name), value.type)
            inputs.append(own)
        body.function.inputs = inputs
    return outer


@dataclass(frozen=True)
class _CutAxis:
    """A size that depends on which branch runs: result and axis."""

    result: int
    axis: int


def _level(site: Site, functions: Sequence[Function]) -> list[_CutAxis]:
    """Make the results of two branches equal in shape: filled up to the larger, the sizes behind them."""
    cuts: list[_CutAxis] = []
    for index, values in enumerate(zip(*(function.outputs for function in functions), strict=True)):
        types = [value.type for value in values]
        if types[0].dtype != types[1].dtype or types[0].rank != types[1].rank:
            raise site.fail(
                f"result {index} is {types[0]} in one branch and {types[1]} in the other; element types and "
                "ranks must agree"
            )
        pairs = list(zip(types[0].shape, types[1].shape, strict=True))
        axes = [a for a, (m, n) in enumerate(pairs) if isinstance(m, Bounded) or m != n]
        if not axes:
            continue
        cuts += [_CutAxis(index, axis) for axis in axes]
        bound = tuple(max(int(m), int(n)) for m, n in pairs)
        for function in functions:
            _fill(site, function, index, axes, bound)
    return cuts


def _fill(site: Site, function: Function, index: int, axes: Sequence[int], bound: tuple[int, ...]) -> None:
    """Result `index` in the shape `bound`; its sizes along the axes become further results."""
    inner = Site(
        site.op, site.name, site.since, {}, (), (), Builder(function, origin=(site.name,)), None, site.reader
    )
    value = function.outputs[index]
    sizes = [extent_value(inner, value.shape[axis]) for axis in axes]
    if value.type.is_bounded:
        value = inner.emit("Uncut", value, shape=tuple(map(int, value.shape)))
    missing = [n - m for m, n in zip(value.shape, bound, strict=True)]
    if any(missing):
        value = inner.emit("Pad", value, pads=(*(0 for _ in bound), *missing), mode="constant")
    function.outputs[index] = value
    for size in sizes:
        function.outputs.append(inner.emit("Identity", size))
        function.output_names.append(f"{site.name}.size{len(function.outputs)}")


def _with_cuts(site: Site, results: list[Value], first: int, cuts: Sequence[_CutAxis]) -> list[Value]:
    """The first results, cut along the axes whose sizes are the further ones."""
    found = results[:first]
    for cut, size in zip(cuts, results[first:], strict=True):
        found[cut.result] = site.cut(found[cut.result], cut.axis, size, site.new_size())
    return found
