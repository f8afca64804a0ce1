"""The float64 evaluation that every engine's error is measured against."""

from collections.abc import Mapping
from pathlib import Path

import tilewright as tw
from tilewright_bench.engines.base import Arrays


def float64_reference(model: Path, inputs: Arrays, dims: Mapping[str, int]) -> Arrays:
    """The model's outputs on the same inputs, evaluated operator by operator in float64 with NumPy.

    Errors of the compiler's front end pass through (an operator that it does not know, for example).
    """
    loaded = tw.load(model, dims=dict(dims) or None)
    outputs: Arrays = tw.evaluate(loaded, dict(inputs), dtype="float64")
    return outputs
