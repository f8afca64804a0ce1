"""Padding of sliding windows, shared by convolutions and pools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontend.registry import Attributes
from tilewright.frontend.site import Site

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def refuse_windows(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Attribute values of sliding windows that have no meaning."""
    auto_pad = attributes.get("auto_pad", "NOTSET")
    if auto_pad not in AUTO_PADS:
        yield f"attribute 'auto_pad' is '{auto_pad}', expected one of {', '.join(AUTO_PADS)}"
    if any(pad < 0 for pad in attributes.get("pads", ())):
        yield f"attribute 'pads' has negative values {list(attributes['pads'])}, use Slice or Pad to crop"
    for name in ("strides", "dilations", "kernel_shape"):
        if any(value < 1 for value in attributes.get(name, ())):
            yield f"attribute '{name}' must be positive, it is {list(attributes[name])}"


def per_axis(site: Site, name: str, rank: int, default: int = 1) -> tuple[int, ...]:
    """An attribute with one number for each spatial axis."""
    values: tuple[int, ...] = site.attr(name) or (default,) * rank
    if len(values) != rank:
        raise site.fail(f"attribute '{name}' has {len(values)} values for {rank} spatial axes")
    return values


def window_pads(
    site: Site,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, ...]:
    """Pads of a convolution or pool, all begins, then all ends.

    SAME gives ceil(extent / stride) results; an odd total has its larger half at the end (UPPER) or at the
    begin (LOWER). A stride beyond the kernel would need a negative total: it counts as zero.
    """
    rank = len(extents)
    auto_pad = site.attr("auto_pad", "NOTSET")
    if auto_pad == "VALID":
        return (0,) * (2 * rank)
    if auto_pad == "NOTSET":
        pads: tuple[int, ...] = site.attr("pads") or (0,) * (2 * rank)
        if len(pads) != 2 * rank:
            raise site.fail(
                f"attribute 'pads' has {len(pads)} values for {rank} spatial axes, expected {2 * rank}"
            )
        return pads
    totals = []
    for extent, taps, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
        reach = dilation * (taps - 1) + 1
        totals.append(max(0, (-(-extent // stride) - 1) * stride + reach - extent))
    return split_pads(totals, auto_pad == "SAME_UPPER")


def split_pads(totals: Sequence[int], larger_at_end: bool) -> tuple[int, ...]:
    """Totals an axis as begins, then ends."""
    smaller, larger = [total // 2 for total in totals], [total - total // 2 for total in totals]
    begins, ends = (smaller, larger) if larger_at_end else (larger, smaller)
    return (*begins, *ends)
