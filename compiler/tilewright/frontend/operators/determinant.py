"""Det."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


@importer("Det", 11, 22)
def det(site: Site) -> Sequence[Value]:
    return [site.emit("Det", site.operand(0))]
