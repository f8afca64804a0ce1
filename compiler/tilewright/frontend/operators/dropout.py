"""Dropout: its input at inference; in training a mask that the seed fixes when the model is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

# The mask is a constant of the model: a file cannot make the reader allocate without bound.
_LARGEST = 1 << 20
_DEFAULT_RATIO = 0.5


@importer("Dropout", 7, 10, 12, 13, 22)
def dropout(site: Site) -> Sequence[Value]:
    """At inference, and with ratio 0, the input itself and a mask of ones."""
    x = site.operand(0)
    training = site.has(2) and bool(site.known(2).reshape(-1)[0])
    ratio = float(site.known(1).reshape(-1)[0]) if training and site.has(1) else _DEFAULT_RATIO
    if training and ratio:
        return _dropped(site, x, ratio)
    if len(site.outputs) < 2 or not site.outputs[1]:
        return [x]
    return [x, site.emit("Expand", site.constant(np.array(True)), shape=x.shape)]


def _dropped(site: Site, x: Value, ratio: float) -> Sequence[Value]:
    """Values survive where a number of the generator that ONNX's own reference uses reaches the ratio."""
    if "seed" not in site.attributes:
        raise site.fail(
            "training mode drops values at random, which attribute 'seed' must fix; "
            "export the model for inference"
        )
    if not 0 <= ratio < 1 or x.type.size > _LARGEST:
        raise site.fail(f"cannot drop a ratio of {ratio} of {x.type}: below 1, of at most {_LARGEST} values")
    drawn = np.random.RandomState(site.attributes["seed"] & 0xFFFFFFFF).uniform(0, 1, x.shape)
    mask = site.constant(np.asarray(drawn >= ratio))
    scaled = site.emit("Mul", x, site.scalar(1 / (1 - ratio), x))
    return [site.emit("Where", mask, scaled, site.scalar(0, x)), mask]
