"""Conversions of element types: Cast, CastLike, BitCast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.dtypes import F64, DType
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type, type_name
from tilewright.graph.ir import Value
from tilewright.ops.codes import FORMATS, numbers_of

_ROUNDINGS = ("up", "down", "nearest")


def convert(site: Site, x: Value, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Value:
    """x in another element type; codes (8-bit floats and narrower types) go through f32 or i32."""
    if x.dtype == dtype:
        return x
    if x.dtype.is_code:
        x = site.emit("Decode", x)
    if not dtype.is_code:
        return _cast(site, x, dtype)
    exact = x.dtype == F64 and dtype.name in FORMATS  # to round once
    numbers = x if exact else _cast(site, x, numbers_of(dtype))
    return site.emit("Encode", numbers, to=dtype, saturate=saturate, round_mode=round_mode)


def _cast(site: Site, x: Value, dtype: DType) -> Value:
    return x if x.dtype == dtype else site.emit("Cast", x, to=dtype)


def _wanted(site: Site) -> DType:
    code = site.attr("to")
    dtype = element_type(code)
    if dtype is None:
        raise site.fail(f"element type {type_name(code)} is not supported")
    return dtype


def refuse_roundings(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Roundings that ONNX does not define."""
    mode = attributes.get("round_mode", "up")
    if mode not in _ROUNDINGS:
        yield f"attribute 'round_mode' is '{mode}', expected one of {', '.join(_ROUNDINGS)}"


@importer("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28, refuse=refuse_roundings)
def cast(site: Site) -> Sequence[Value]:
    """`saturate` matters for 8-bit floats, `round_mode` for powers of two (float8e8m0) alone."""
    mode = site.attr("round_mode", "up")
    return [convert(site, site.operand(0), _wanted(site), site.flag("saturate", 1), mode)]


@importer("CastLike", 15, 19, 21, 23, 24, 25, refuse=refuse_roundings)
def cast_like(site: Site) -> Sequence[Value]:
    """Only the element type of the second operand counts."""
    mode = site.attr("round_mode", "up")
    return [convert(site, site.operand(0), site.operand(1).dtype, site.flag("saturate", 1), mode)]


@importer("BitCast", 26)
def bit_cast(site: Site) -> Sequence[Value]:
    x, dtype = site.operand(0), _wanted(site)
    if x.dtype.file_bits != dtype.file_bits:
        raise site.fail(f"{x.dtype} and {dtype} have different widths")
    return [x if dtype == x.dtype else site.emit("BitCast", x, of=x.dtype, to=dtype)]
