"""Whether results are right, by the rules of the suite's own runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Two units in the last place of bfloat16, which has no room for the suite's usual tolerance.
_BFLOAT16_RTOL = 2.0**-6


def difference(expected: Sequence[Any], found: Sequence[Any], rtol: float, atol: float) -> str:
    """What is wrong with the results, empty when nothing is: number, shapes, element types, values."""
    if len(expected) != len(found):
        return f"{len(found)} outputs, expected {len(expected)}"
    for index, (wanted, result) in enumerate(zip(expected, found, strict=True)):
        reason = _array_difference(wanted, result, rtol, atol)
        if reason:
            return f"output {index}: {reason}"
    return ""


def _array_difference(wanted: Any, result: Any, rtol: float, atol: float) -> str:
    if not isinstance(wanted, np.ndarray | np.generic):
        return f"a {type(wanted).__name__} is expected, found an array"
    if wanted.shape != result.shape:
        return f"shape {list(result.shape)}, expected {list(wanted.shape)}"
    if wanted.dtype != result.dtype:
        return f"{result.dtype}, expected {wanted.dtype}"
    if wanted.dtype.name == "bfloat16":
        rtol = max(rtol, _BFLOAT16_RTOL)
    # ml_dtypes have kind V, and do not mix with Python's numbers
    if wanted.dtype.kind in "fV":
        wide = np.float64 if wanted.dtype == np.float64 else np.float32
        wanted, result = np.asarray(wanted).astype(wide), np.asarray(result).astype(wide)
    with np.errstate(all="ignore"):
        same = np.isclose(result, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if same.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    return (
        f"{np.count_nonzero(~same)} of {same.size} elements differ, first at {list(place)}: "
        f"{result[place]}, expected {wanted[place]}"
    )
