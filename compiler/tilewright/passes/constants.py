"""Reading constants."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from tilewright.graph.ir import Constant, Value


def plain_array(constant: Constant) -> np.ndarray:
    """The logical array of a constant, whatever its storage."""
    return constant.type.storage.unpack(constant.data, constant.shape)


def float64_array(value: Value | None) -> np.ndarray | None:
    """A floating-point constant in double precision; None for anything else."""
    if not isinstance(value, Constant) or not value.dtype.is_float:
        return None
    return plain_array(value).astype(np.float64)


def holds_only(value: Value | None, number: float) -> bool:
    """Whether a value is a constant all of whose elements equal `number`."""
    if not isinstance(value, Constant) or not value.type.size:
        return False
    data = value.data if not value.type.storage.tag else plain_array(value)
    return bool(data.flat[0] == number) and bool((data == number).all())


def is_single(value: Value | None) -> TypeGuard[Constant]:
    """Whether a value is a constant of exactly one element."""
    return isinstance(value, Constant) and value.type.size == 1
