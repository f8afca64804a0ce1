"""Trip counts and conditions: operands of one element."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DType
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


def single(site: Site, array: np.ndarray, what: str) -> bool | int:
    """The value of an operand that is known."""
    if array.size != 1:
        raise site.fail(f"the {what} has {array.size} elements, expected one")
    found: bool | int = array.reshape(-1)[0].item()
    return found


def scalar(site: Site, index: int, dtype: DType, what: str) -> Value:
    """A run-time operand of one element, of rank 0."""
    value = site.operand(index)
    if value.dtype != dtype or value.type.is_bounded or value.type.size != 1:
        raise site.fail(f"the {what} is {value.type}, expected {dtype}[]")
    return site.reshape(value, ())
