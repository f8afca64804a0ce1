"""From a seed to a case."""

from __future__ import annotations

import random

from fuzz import layers, movement, pointwise, quantized
from fuzz.drawing import INTEGERS, Case, Drawing

OPSETS = (13, 15, 17, 18, 21)
MOST_NODES = 12
DRAWS = (*pointwise.DRAWS, *movement.DRAWS, *layers.DRAWS, *quantized.DRAWS)


def draw(seed: int) -> Case:
    """A valid model of 1 to about 12 nodes, with values for its inputs. The same seed gives the same case."""
    d = Drawing(random.Random(seed), 17)
    d.opset = d.among(OPSETS)
    for _ in range(d.between(1, 2)):
        dtype = d.among(("float32",) * 8 + ("float64", "float16", d.among(INTEGERS)))
        d.input(dtype, d.dims(d.among((0, 1, 2, 3, 4, 4, 4, 5))))
    wanted = d.between(1, MOST_NODES)
    functions, weights = zip(*DRAWS, strict=True)
    while len(d.nodes) < wanted:
        d.random.choices(functions, weights)[0](d)
    return d.case()
