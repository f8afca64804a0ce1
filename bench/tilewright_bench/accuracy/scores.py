"""From a classifier's output to what is kept of one image: its best classes, and the margins of a
disagreement.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import RunError
from tilewright_bench.engines.base import Array, Arrays

Probabilities = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Disagreement:
    """Two engines name different output indices for one image.

    A margin is how much more probability the engine gives its own class than the other's class: near 0 is a
    near-tie, which rounding may turn over; a large one is a fault.
    """

    a_index: int
    b_index: int
    a_margin: float
    b_margin: float


def class_scores(outputs: Arrays) -> Probabilities:
    """Probabilities [classes] of one image, float64, from an engine's only output with one row.

    Rows that are no probabilities yet go through a softmax. Raises RunError for another shape or for NaN.
    """
    if len(outputs) != 1:
        raise RunError(f"a classifier has one output, this model has {len(outputs)}: {', '.join(outputs)}")
    name, output = next(iter(outputs.items()))
    row: Array = np.asarray(output, dtype=np.float64).reshape(-1)
    if output.shape[0] != 1 or row.size < 2:
        raise RunError(f"output '{name}' has shape {output.shape}; one row of class scores was expected")
    if not np.all(np.isfinite(row)):
        raise RunError(f"output '{name}' holds a NaN or an infinity")
    if row.min() >= 0 and abs(row.sum() - 1) < 1e-3:
        return row
    powers: Probabilities = np.exp(row - row.max())
    powers /= powers.sum()
    return powers


def best(scores: Probabilities, k: int) -> list[int]:
    """The k best classes, best first; of equal scores the lower index first, for every engine alike."""
    return [int(index) for index in np.argsort(-scores, kind="stable")[:k]]


def disagreement(a: Probabilities, b: Probabilities) -> Disagreement | None:
    """How two engines disagree on the best class of one image, or None when they agree."""
    a_index, b_index = best(a, 1)[0], best(b, 1)[0]
    if a_index == b_index:
        return None
    return Disagreement(a_index, b_index, float(a[a_index] - a[b_index]), float(b[b_index] - b[a_index]))
