"""Conv and ConvTranspose, 1-D to 3-D."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontend.operators.windows import per_axis, refuse_windows, split_pads, window_pads
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


def refuse_transposed(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """As for any window; the output's size and padding cannot be negative."""
    yield from refuse_windows(attributes, outputs)
    for name in ("output_padding", "output_shape"):
        if any(value < 0 for value in attributes.get(name, ())):
            yield f"attribute '{name}' has negative values {list(attributes[name])}"


@importer("Conv", 1, 11, 22, refuse=refuse_windows)
def conv(site: Site) -> Sequence[Value]:
    """Pads become explicit; the kernel's shape is the weights'."""
    x, weights, kernel = _operands(site)
    strides, dilations = (per_axis(site, name, len(kernel)) for name in ("strides", "dilations"))
    return [
        site.emit(
            "Conv",
            x,
            weights,
            site.optional(2),
            strides=strides,
            dilations=dilations,
            pads=window_pads(site, x.shape[2:], kernel, strides, dilations),
            group=site.attr("group", 1),
        )
    ]


@importer("ConvInteger", 10, refuse=refuse_windows)
def conv_integer(site: Site) -> Sequence[Value]:
    """As Conv; padding stands for the zero point of the input."""
    x, weights, kernel = _operands(site)
    strides, dilations = (per_axis(site, name, len(kernel)) for name in ("strides", "dilations"))
    return [
        site.emit(
            "ConvInteger",
            x,
            weights,
            site.optional(2),
            site.optional(3),
            strides=strides,
            dilations=dilations,
            pads=window_pads(site, x.shape[2:], kernel, strides, dilations),
            group=site.attr("group", 1),
        )
    ]


@importer("ConvTranspose", 1, 11, 22, refuse=refuse_transposed)
def conv_transpose(site: Site) -> Sequence[Value]:
    """Pads are computed from output_shape or auto_pad by the formulas of the ONNX specification."""
    x, weights, kernel = _operands(site)
    rank = len(kernel)
    strides, dilations = (per_axis(site, name, rank) for name in ("strides", "dilations"))
    extra = per_axis(site, "output_padding", rank, default=0)
    totals = _transposed_totals(site, x.shape[2:], kernel, strides, dilations, extra)
    if totals is None:
        pads = window_pads(site, x.shape[2:], kernel, strides, dilations)
    else:
        pads = split_pads([max(0, total) for total in totals], site.attr("auto_pad") == "SAME_UPPER")
        extra = tuple(more - min(0, total) for more, total in zip(extra, totals, strict=True))
    return [
        site.emit(
            "ConvTranspose",
            x,
            weights,
            site.optional(2),
            strides=strides,
            dilations=dilations,
            pads=pads,
            output_padding=extra,
            group=site.attr("group", 1),
        )
    ]


def _transposed_totals(
    site: Site,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: Sequence[int],
) -> list[int] | None:
    """Pads an axis, begin and end together, that reach the wanted output shape; None when none is asked for.

    Below zero the kernel does not reach that far: the rest is zeros at the end, as output_padding is.
    """
    auto_pad = site.attr("auto_pad", "NOTSET")
    wanted = site.attr("output_shape")
    if not wanted and auto_pad in ("NOTSET", "VALID"):
        return None
    if not wanted:
        wanted = tuple(extent * stride for extent, stride in zip(extents, strides, strict=True))
    wanted = wanted[-len(extents) :]  # some exporters prepend batch and channels
    if len(wanted) != len(extents):
        raise site.fail(f"attribute 'output_shape' has {len(wanted)} values for {len(extents)} spatial axes")
    totals = []
    for index, (extent, target) in enumerate(zip(extents, wanted, strict=True)):
        reach = dilations[index] * (kernel[index] - 1) + 1
        totals.append(strides[index] * (extent - 1) + extra[index] + reach - target)
    return totals


def _operands(site: Site) -> tuple[Value, Value, tuple[int, ...]]:
    """Input, weights and kernel shape; the attribute kernel_shape may only repeat what the weights say."""
    x, weights = site.operand(0), site.operand(1)
    rank = len(weights.shape) - 2
    if not 1 <= rank <= 3 or len(x.shape) != rank + 2:
        raise site.fail(
            f"expected input and weights of equal rank 3 to 5, they are {x.type} and {weights.type}"
        )
    kernel = weights.shape[2:]
    declared = site.attr("kernel_shape")
    if declared and tuple(declared) != kernel:
        raise site.fail(f"attribute 'kernel_shape' is {list(declared)}, the weights have {list(kernel)}")
    return x, weights, kernel
