"""What a case of an operator is, and small seeded operands for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

HALVES = (np.float16, ml_dtypes.bfloat16)


@dataclass
class Case:
    """op with operands (None: omitted) and attributes; rtol, atol: allowed difference of two ways."""

    op: str
    operands: list[np.ndarray | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    rtol: float = 2e-5
    atol: float = 2e-6

    def __str__(self) -> str:
        shapes = "-".join("none" if a is None else f"{a.dtype}{list(a.shape)}" for a in self.operands)
        return f"{self.op}-{shapes}-{self.attrs}".replace(" ", "")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape), dtype)


def positive(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(np.abs(normal(*shape, seed=seed)) + np.float32(0.1), dtype)


def whole(*shape: int, seed: int = 0, dtype: Any = np.int64, low: int = -9, high: int = 9) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).integers(low, high, shape), dtype)


def flags(*shape: int, seed: int = 0) -> np.ndarray:
    return whole(*shape, seed=seed, low=0, high=2).astype(bool)


def loose(dtype: Any) -> dict[str, float]:
    """A half result may differ by its last place where the float32 values before rounding do."""
    bits = 11 if np.dtype(dtype) == np.float16 else 8
    return {"rtol": 2.0**-bits, "atol": 1e-6} if dtype in HALVES else {}
