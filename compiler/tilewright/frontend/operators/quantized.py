"""Quantised operators. Forms of one opset differ in attributes only, so each has one reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.dtypes import I8, I32, U8, DType
from tilewright.frontend.operators.windows import per_axis, refuse_windows, window_pads
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type, type_name
from tilewright.graph.ir import Value
from tilewright.ops.codes import numbers_of
from tilewright.ops.quantization import as_type, granularity, quotient, quotient_type, spread

_SINCE = (10, 13, 19, 21, 23, 24, 25, 28)


def refuse_types(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Element types that attributes name."""
    for name in ("output_dtype", "precision"):
        code = attributes.get(name, 0)
        if code and element_type(code) is None:
            yield f"attribute '{name}' is {type_name(code)}, which is not supported"


def _dtype(site: Site, name: str) -> DType | None:
    """The element type that an attribute names; 0 stands for none."""
    code = site.attr(name, 0)
    return element_type(code) if code else None


def _axis(site: Site, x: Value, scale: Value) -> int:
    """The axis of a scale that has one; a scale of one element does not need it."""
    if scale.type.size == 1 and len(scale.shape) <= 1:
        return 0
    return site.axis(len(x.shape), 1)


def _numbers(site: Site, value: Value | None) -> Value | None:
    """Codes (8-bit floats and narrower types) as the numbers that they stand for."""
    return site.emit("Decode", value) if value is not None and value.dtype.is_code else value


def _scale(site: Site) -> Value:
    scale = _numbers(site, site.operand(1))
    assert scale is not None
    return scale


@importer("QuantizeLinear", *_SINCE, refuse=refuse_types)
def quantize_linear(site: Site) -> Sequence[Value]:
    """Without a zero point and an output type the result is u8."""
    x, scale, zero = site.operand(0), _scale(site), site.optional(2)
    to = _dtype(site, "output_dtype") or (zero.dtype if zero is not None else U8)
    if zero is not None and zero.dtype != to:
        raise site.fail(f"the zero point has element type {zero.dtype}, the result is declared as {to}")
    attrs: dict[str, Any] = {
        "axis": _axis(site, x, scale),
        "block_size": site.attr("block_size", 0),
        "precision": _dtype(site, "precision"),
    }
    if not to.is_code:
        return [site.emit("QuantizeLinear", x, scale, zero, to=to, **attrs)]
    numbers = _numbers(site, zero)
    if numbers_of(to).is_float:
        return [_small_floats(site, x, scale, numbers, to, attrs)]
    narrow = None if numbers is None else site.emit("Cast", numbers, to=I8)
    y = site.emit("QuantizeLinear", x, scale, narrow, to=I8, **attrs)
    half = 1 << (to.file_bits - 1)
    low, high = (0, 2 * half - 1) if to.name.startswith("u") else (-half, half - 1)
    limited = site.emit("Clip", y, site.scalar(low, y), site.scalar(high, y))
    return [site.emit("Encode", site.emit("Cast", limited, to=I32), to=to)]


def _small_floats(
    site: Site, x: Value, scale: Value, zero: Value | None, to: DType, attrs: Mapping[str, Any]
) -> Value:
    """The quotient itself, rounded to a float of 8 or 4 bits."""
    over = granularity("QuantizeLinear", x.shape, scale.shape, attrs["axis"], attrs["block_size"])
    precision = quotient_type(scale.dtype, attrs["precision"])
    y = quotient(site.builder, x, scale, over, precision)
    if zero is not None:
        y = site.emit("Add", y, as_type(site.builder, spread(site.builder, zero, x.shape, over), y.dtype))
    return site.emit("Encode", y, to=to, saturate=site.flag("saturate", 1))


@importer("DequantizeLinear", *_SINCE, refuse=refuse_types)
def dequantize_linear(site: Site) -> Sequence[Value]:
    """The result has the scale's type; of a scale that is a code, f32."""
    x, scale = site.operand(0), _scale(site)
    return [
        site.emit(
            "DequantizeLinear",
            _numbers(site, x),
            scale,
            _numbers(site, site.optional(2)),
            axis=_axis(site, x, scale),
            block_size=site.attr("block_size", 0),
            to=_dtype(site, "output_dtype") or scale.dtype,
        )
    ]


@importer("DynamicQuantizeLinear", 11)
def dynamic_quantize_linear(site: Site) -> Sequence[Value]:
    return site.emit_all("DynamicQuantizeLinear", site.operand(0))


@importer("MatMulInteger", 10)
def matmul_integer(site: Site) -> Sequence[Value]:
    return [site.emit("MatMulInteger", site.operand(0), site.operand(1), site.optional(2), site.optional(3))]


@importer("QLinearMatMul", 10, 21)
def qlinear_matmul(site: Site) -> Sequence[Value]:
    return [site.emit("QLinearMatMul", *(site.operand(index) for index in range(8)))]


@importer("QLinearConv", 10, refuse=refuse_windows)
def qlinear_conv(site: Site) -> Sequence[Value]:
    """Pads become explicit; the kernel's shape is the weights'."""
    operands = [site.operand(index) for index in range(8)]
    x, weights = operands[0], operands[3]
    kernel = weights.shape[2:]
    if len(weights.shape) != len(x.shape) or not 1 <= len(kernel) <= 3:
        raise site.fail(
            f"expected input and weights of equal rank 3 to 5, they are {x.type} and {weights.type}"
        )
    declared = site.attr("kernel_shape")
    if declared and tuple(declared) != kernel:
        raise site.fail(f"attribute 'kernel_shape' is {list(declared)}, the weights have {list(kernel)}")
    strides, dilations = (per_axis(site, name, len(kernel)) for name in ("strides", "dilations"))
    return [
        site.emit(
            "QLinearConv",
            *operands,
            site.optional(8),
            strides=strides,
            dilations=dilations,
            pads=window_pads(site, x.shape[2:], kernel, strides, dilations),
            group=site.attr("group", 1),
        )
    ]
