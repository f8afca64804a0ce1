"""Reductions. The axes became an operand in opset 13 (ReduceSum) and 18 (the others)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.frontend.registry import Reader, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


def _axes(site: Site) -> tuple[int, ...]:
    """Sorted non-negative axes; () when nothing is reduced."""
    rank = len(site.operand(0).shape)
    given = site.ints(1) if site.has(1) else site.attr("axes", ())
    if not given:
        return () if site.flag("noop_with_empty_axes") else tuple(range(rank))
    axes = sorted(site.normal_axis(axis, rank) for axis in given)
    if len(set(axes)) != len(axes):
        raise site.fail(f"axes {list(given)} name an axis twice")
    return tuple(axes)


def _reduce(
    op: str,
    before: Callable[[Site, Value], Value] | None = None,
    after: Callable[[Site, Value], Value] | None = None,
) -> Reader:
    """A reader: `before` maps the operand, `op` reduces it, `after` maps the result."""

    def read(site: Site) -> Sequence[Value]:
        x, axes = site.operand(0), _axes(site)
        value = before(site, x) if before else x
        if axes:
            value = site.emit(op, value, axes=axes, keepdims=site.flag("keepdims", 1))
        return [after(site, value) if after else value]

    return read


def _square(site: Site, x: Value) -> Value:
    return site.emit("Mul", x, x)


def _op(name: str) -> Callable[[Site, Value], Value]:
    return lambda site, x: site.emit(name, x)


importer("ReduceSum", 1, 11, 13)(_reduce("ReduceSum"))
importer("ReduceMean", 1, 11, 13, 18)(_reduce("ReduceMean"))
importer("ReduceMax", 1, 11, 12, 13, 18, 20)(_reduce("ReduceMax"))
importer("ReduceMin", 1, 11, 12, 13, 18, 20)(_reduce("ReduceMin"))
importer("ReduceProd", 1, 11, 13, 18)(_reduce("ReduceProd"))
importer("ReduceSumSquare", 1, 11, 13, 18)(_reduce("ReduceSum", before=_square))
importer("ReduceL1", 1, 11, 13, 18)(_reduce("ReduceSum", before=_op("Abs")))
importer("ReduceL2", 1, 11, 13, 18)(_reduce("ReduceSum", before=_square, after=_op("Sqrt")))
importer("ReduceLogSum", 1, 11, 13, 18, 28)(_reduce("ReduceSum", after=_op("Log")))
