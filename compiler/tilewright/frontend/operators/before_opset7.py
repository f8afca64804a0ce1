"""Operators of opsets before 7, in terms of their versions in opset 7.

Broadcasting was asked for then: `broadcast` allows it, `axis` says where in the first the second operand is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from tilewright.frontend.operators.windows import refuse_windows
from tilewright.frontend.registry import TABLE, Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
_LOGIC = ("And", "Or", "Xor", "Equal", "Greater", "Less")


def _newer(site: Site, *operands: Value | None) -> Sequence[Value | None]:
    """The results of the version in opset 7 on these operands."""
    newer = copy(site)
    newer.operands, newer.since = operands, 7
    return TABLE[site.op, 7].read(newer)


def binary(site: Site) -> Sequence[Value | None]:
    """Without `axis` the second operand's axes are the last ones of the first."""
    a, b = site.operand(0), site.operand(1)
    if not site.flag("broadcast"):
        if a.shape != b.shape:
            raise site.fail(f"{a.type} and {b.type} differ in shape, and attribute 'broadcast' is not set")
        return _newer(site, a, b)
    if "axis" not in site.attributes:
        return _newer(site, a, b)
    first = site.axis(len(a.shape), 0)
    behind = len(a.shape) - first - len(b.shape)
    if behind < 0:
        raise site.fail(f"{b.type} has no place in {a.type} from axis {first} on")
    return _newer(site, a, site.reshape(b, (*b.shape, *(1 for _ in range(behind)))))


for _op in _ARITHMETIC:
    importer(_op, 1, 6)(binary)
for _op in (*_LOGIC, "Pow"):
    importer(_op, 1)(binary)


@importer("Gemm", 1, 6)
def gemm(site: Site) -> Sequence[Value | None]:
    """`broadcast` concerns the third operand only, which fits or does not, whatever it says."""
    return _newer(site, *(site.optional(index) for index in range(3)))


@importer("PRelu", 1, 6)
def prelu(site: Site) -> Sequence[Value | None]:
    """Several slopes are one for each channel."""
    x, slope = site.operand(0), site.operand(1)
    if len(slope.shape) == 1 and slope.shape[0] > 1:
        slope = site.reshape(slope, (*slope.shape, *(1 for _ in x.shape[2:])))
    return _newer(site, x, slope)


@importer("AveragePool", 1, refuse=refuse_windows)
def average_pool(site: Site) -> Sequence[Value | None]:
    return _newer(site, site.operand(0))


@importer("BatchNormalization", 1, 6)
def batch_normalization(site: Site) -> Sequence[Value | None]:
    """As in opset 7, training is what has more than one result; `is_test` only repeats that."""
    return _newer(site, *site.all_operands())


def refuse_training(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Training drops elements at random, with no seed to repeat it."""
    if not attributes.get("is_test", 0):
        yield "attribute 'is_test' is 0, which drops elements at random; export the model for inference"
    if any(outputs[1:]):
        yield "the mask is used, which only training has"


@importer("Dropout", 1, 6, refuse=refuse_training)
def dropout(site: Site) -> Sequence[Value]:
    return [site.operand(0)]
