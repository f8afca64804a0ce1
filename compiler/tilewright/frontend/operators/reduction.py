"""Reductions. The axes became an operand in opset 13 (ReduceSum) and 18 (the others)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dtypes import F32, F64
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


def _reduced(site: Site, op: str, value: Value, keepdims: bool | None = None) -> Value:
    """The reduction over the node's axes; over no axes it is the value itself."""
    axes = _axes(site)
    keep = site.flag("keepdims", 1) if keepdims is None else keepdims
    return site.emit(op, value, axes=axes, keepdims=keep) if axes else value


def _plain(op: str) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        return [_reduced(site, op, site.operand(0))]

    return read


def _composite(calculate: Callable[[Site, Value], Value], exact: bool = False) -> Reader:
    """A reader of a chain of operators: half types run through it in f32 and are rounded once.

    exact: integers stay integers; otherwise they go through f64 and the result is truncated.
    """

    def read(site: Site) -> Sequence[Value]:
        x = site.operand(0)
        if x.dtype.is_float:
            work = F32 if x.dtype.bits == 16 else x.dtype
        else:
            work = x.dtype if exact else F64
        y = calculate(site, x if work == x.dtype else site.emit("Cast", x, to=work))
        return [y if y.dtype == x.dtype else site.emit("Cast", y, to=x.dtype)]

    return read


def _sum_of_squares(site: Site, x: Value) -> Value:
    return _reduced(site, "ReduceSum", site.emit("Mul", x, x))


def _sum_of_magnitudes(site: Site, x: Value) -> Value:
    return _reduced(site, "ReduceSum", site.emit("Abs", x))


def _length(site: Site, x: Value) -> Value:
    return site.emit("Sqrt", _sum_of_squares(site, x))


def _logarithm_of_sum(site: Site, x: Value) -> Value:
    return site.emit("Log", _reduced(site, "ReduceSum", x))


def _logarithm_of_sum_of_exponentials(site: Site, x: Value) -> Value:
    """log(sum(exp(x - m))) + m with m the largest, which avoids overflow; an infinite m is not taken off."""
    largest = _reduced(site, "ReduceMax", x, keepdims=True)
    shift = site.emit("Where", site.emit("IsInf", largest), site.scalar(0, x), largest)
    total = _reduced(site, "ReduceSum", site.emit("Exp", site.emit("Sub", x, shift)))
    return site.emit("Add", site.emit("Log", total), site.reshape(shift, total.shape))


importer("ReduceSum", 1, 11, 13)(_plain("ReduceSum"))
importer("ReduceMean", 1, 11, 13, 18)(_plain("ReduceMean"))
importer("ReduceMax", 1, 11, 12, 13, 18, 20)(_plain("ReduceMax"))
importer("ReduceMin", 1, 11, 12, 13, 18, 20)(_plain("ReduceMin"))
importer("ReduceProd", 1, 11, 13, 18)(_plain("ReduceProd"))
importer("ReduceSumSquare", 1, 11, 13, 18)(_composite(_sum_of_squares, exact=True))
importer("ReduceL1", 1, 11, 13, 18)(_composite(_sum_of_magnitudes, exact=True))
importer("ReduceL2", 1, 11, 13, 18)(_composite(_length))
importer("ReduceLogSum", 1, 11, 13, 18, 28)(_composite(_logarithm_of_sum))
importer("ReduceLogSumExp", 1, 11, 13, 18, 28)(_composite(_logarithm_of_sum_of_exponentials))
