"""ImageDecoder: the size of the picture is the one that the model declares for the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value
from tilewright.ops.image_bytes import PIXEL_FORMATS


def _refuse(attributes: Attributes, _: Sequence[bool]) -> Iterable[str]:
    if attributes.get("pixel_format", PIXEL_FORMATS[0]) not in PIXEL_FORMATS:
        yield f"attribute 'pixel_format' must be one of {', '.join(PIXEL_FORMATS)}"


@importer("ImageDecoder", 20, refuse=_refuse)
def image_decoder(site: Site) -> Sequence[Value]:
    """The size stands in the file, so nothing else can tell it before a run; each run checks it."""
    height, width, *_ = [*site.declared_shape(), None, None]
    if height is None or width is None:
        raise site.fail(
            "the size of the picture must be known before the run: declare its result "
            "as [height, width, channels] in the model; sizes with a name are given by --dim NAME=N"
        )
    pixel_format = site.attr("pixel_format", PIXEL_FORMATS[0])
    return [site.emit("ImageDecoder", site.operand(0), height=height, width=width, pixel_format=pixel_format)]
