"""Quantised operators. Forms of one opset differ in attributes only, so each has one reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.dtypes import U8, DType
from tilewright.frontend.operators.windows import per_axis, refuse_windows, window_pads
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type, type_name
from tilewright.graph.ir import Value

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


@importer("QuantizeLinear", *_SINCE, refuse=refuse_types)
def quantize_linear(site: Site) -> Sequence[Value]:
    """Without a zero point and an output type the result is u8."""
    x, scale, zero = site.operand(0), site.operand(1), site.optional(2)
    to = _dtype(site, "output_dtype") or (zero.dtype if zero is not None else U8)
    return [
        site.emit(
            "QuantizeLinear",
            x,
            scale,
            zero,
            axis=_axis(site, x, scale),
            block_size=site.attr("block_size", 0),
            to=to,
            precision=_dtype(site, "precision"),
        )
    ]


@importer("DequantizeLinear", *_SINCE, refuse=refuse_types)
def dequantize_linear(site: Site) -> Sequence[Value]:
    x, scale, zero = site.operand(0), site.operand(1), site.optional(2)
    return [
        site.emit(
            "DequantizeLinear",
            x,
            scale,
            zero,
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
