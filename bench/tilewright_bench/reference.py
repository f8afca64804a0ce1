"""The float64 evaluation that every engine's error is measured against."""

from collections.abc import Mapping
from pathlib import Path

import tilewright as tw
from tilewright_bench.engines.base import Arrays
from tilewright_bench.sizes import known_sizes


def float64_reference(model: Path, inputs: Arrays, dims: Mapping[str, int]) -> Arrays:
    """The model's outputs on the same inputs, evaluated operator by operator in float64 with NumPy.

    Errors of the compiler's front end pass through (an operator that it does not know, for example).
    """
    return tw.evaluate(model, inputs, dtype="float64", dims=known_sizes(model, dims))
