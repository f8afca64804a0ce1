"""Optionals of plain tensors: whether a tensor is there is known when the model is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


@importer("OptionalHasElement", 15, 18, 28)
def optional_has_element(site: Site) -> Sequence[Value]:
    """A tensor is always there; an operand that is left out never is."""
    return [site.constant(np.array(site.has(0)))]


@importer("OptionalGetElement", 15, 18, 28)
def optional_get_element(site: Site) -> Sequence[Value]:
    """The tensor itself."""
    return [site.operand(0)]
