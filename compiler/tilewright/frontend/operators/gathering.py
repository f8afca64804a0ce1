"""Operators that read or write at indices which the data give, or find such indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tilewright.dtypes import I32, I64
from tilewright.frontend.registry import Attributes, Reader, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_REDUCTIONS = {16: ("none", "add", "mul"), 18: ("none", "add", "mul", "max", "min")}


@importer("GatherElements", 11, 13)
def gather_elements(site: Site) -> Sequence[Value]:
    x = site.operand(0)
    return [site.emit("GatherElements", x, site.operand(1), axis=site.axis(len(x.shape), 0))]


@importer("GatherND", 11, 12, 13)
def gather_nd(site: Site) -> Sequence[Value]:
    """The leading axes that x and the indices share came with opset 12."""
    return [site.emit("GatherND", site.operand(0), site.operand(1), batch_dims=site.attr("batch_dims", 0))]


def refuse_reductions(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Combinations that ONNX does not define."""
    given = attributes.get("reduction", "none")
    if given not in _REDUCTIONS[18]:
        yield f"attribute 'reduction' is '{given}', expected one of {', '.join(_REDUCTIONS[18])}"


def _reduction(site: Site) -> str:
    given = str(site.attr("reduction", "none"))
    known = _REDUCTIONS.get(site.since, ("none",))
    if given not in known:
        raise site.fail(f"attribute 'reduction' is '{given}', this version knows {', '.join(known)}")
    return given


@importer("Scatter", 9)
@importer("ScatterElements", 11, 13, 16, 18, refuse=refuse_reductions)
def scatter_elements(site: Site) -> Sequence[Value]:
    """Scatter is the older name. Of several updates of one element the last one counts."""
    x, axis = site.operand(0), site.axis(len(site.operand(0).shape), 0)
    operands = (x, site.operand(1), site.operand(2))
    return [site.emit("ScatterElements", *operands, axis=axis, reduction=_reduction(site))]


@importer("ScatterND", 11, 13, 16, 18, refuse=refuse_reductions)
def scatter_nd(site: Site) -> Sequence[Value]:
    operands = (site.operand(0), site.operand(1), site.operand(2))
    return [site.emit("ScatterND", *operands, reduction=_reduction(site))]


@importer("TensorScatter", 24)
def tensor_scatter(site: Site) -> Sequence[Value]:
    cache = site.operand(0)
    axis, mode = site.axis(len(cache.shape), -2), site.attr("mode", "linear")
    return [site.emit("TensorScatter", cache, site.operand(1), site.optional(2), axis=axis, mode=mode)]


@importer("TopK", 1, 10, 11, 24)
def top_k(site: Site) -> Sequence[Value]:
    """Always in order, which `sorted` 0 does not ask for and does not forbid."""
    x = site.operand(0)
    axis = site.axis(len(x.shape), -1)
    k = site.attr("k") if site.since < 10 else int(_one(site, site.ints(1), "k"))
    if not 0 <= k <= x.shape[axis]:
        raise site.fail(f"k = {k} of the {x.shape[axis]} elements of axis {axis}")
    return site.emit_all("TopK", x, k=k, axis=axis, largest=site.flag("largest", 1))


def _one(site: Site, numbers: Sequence[int], what: str) -> int:
    if len(numbers) != 1:
        raise site.fail(f"{what} is one number, found {list(numbers)}")
    return numbers[0]


def _extremum(op: str) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        x = site.operand(0)
        axis, keep = site.axis(len(x.shape), 0), site.flag("keepdims", 1)
        return [site.emit(op, x, axis=axis, keepdims=keep, last=site.flag("select_last_index"))]

    return read


for _op in ("ArgMax", "ArgMin"):
    importer(_op, 1, 11, 12, 13)(_extremum(_op))


@importer("Hardmax", 1, 11, 13)
def hardmax(site: Site) -> Sequence[Value]:
    """Before opset 13 everything from the axis on is one row."""
    x = site.operand(0)
    rank = len(x.shape)
    if site.since >= 13:
        return [site.emit("Hardmax", x, axis=site.axis(rank, -1))]
    axis = site.axis(rank, 1)
    rows = site.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return [site.reshape(site.emit("Hardmax", rows, axis=1), x.shape)]


@importer("CumSum", 11, 14)
@importer("CumProd", 26)
def cumulative(site: Site) -> Sequence[Value]:
    """The axis is an attribute when it is known now, otherwise an operand."""
    x, given = site.operand(0), site.operand(1)
    flags = {name: site.flag(name) for name in ("exclusive", "reverse")}
    if given.dtype not in (I32, I64) or given.type.size != 1:
        raise site.fail(f"the axis must be one integer, it is {given.type}")
    if site.is_known(1):
        axis = site.normal_axis(_one(site, site.ints(1), "the axis"), len(x.shape))
        return [site.emit(site.op, x, axis=axis, **flags)]
    return [site.emit(site.op, x, given, **flags)]


@importer("OneHot", 9, 11, 28)
def one_hot(site: Site) -> Sequence[Value]:
    """Before opset 11 negative indices were not defined; they wrap like later ones."""
    indices, values = site.operand(0), site.operand(2)
    depth = int(site.known(1).reshape(-1)[0])
    axis = site.axis(len(indices.shape) + 1, -1)
    return [site.emit("OneHot", indices, values, depth=depth, axis=axis)]


@importer("ReverseSequence", 10, 28)
def reverse_sequence(site: Site) -> Sequence[Value]:
    x = site.operand(0)
    rank = len(x.shape)
    axes = {"time_axis": site.axis(rank, 0, "time_axis"), "batch_axis": site.axis(rank, 1, "batch_axis")}
    return [site.emit("ReverseSequence", x, site.operand(1), **axes)]


@importer("Trilu", 14)
def trilu(site: Site) -> Sequence[Value]:
    """The diagonal may be computed at run time."""
    return [site.emit("Trilu", site.operand(0), site.optional(1), upper=site.flag("upper", 1))]
