"""Conversions of element types beside Cast itself: CastLike, BitCast."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type, type_name
from tilewright.graph.ir import Value


@importer("CastLike", 15, 19, 21, 23, 24, 25)
def cast_like(site: Site) -> Sequence[Value]:
    """Only the element type of the second operand counts."""
    x, dtype = site.operand(0), site.operand(1).dtype
    return [x if dtype == x.dtype else site.emit("Cast", x, to=dtype)]


@importer("BitCast", 26)
def bit_cast(site: Site) -> Sequence[Value]:
    dtype = element_type(site.attr("to"))
    if dtype is None:
        raise site.fail(f"element type {type_name(site.attr('to'))} is not supported")
    x = site.operand(0)
    return [x if dtype == x.dtype else site.emit("BitCast", x, of=x.dtype, to=dtype)]
