"""How far apart two values of one tensor are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright_bench.engines.base import Array
from tilewright_bench.errors_against import error_against

KINDS = {"b": "a boolean", "i": "an integer", "u": "an integer", "c": "complex"}  # all others: floating


@dataclass(frozen=True)
class Difference:
    """`a` against `b`, which counts as the true value.

    rel_l2 is |a - b| / |b|, infinite where one of them alone has a NaN or an infinity, or for another shape
    or kind of element, which `mismatch` then says. `differing` counts elements that are not equal.
    first_index is the first element, rows last, whose error alone exceeds the tolerance, relative to the root
    mean square of b; None when no element does.
    """

    max_abs: float
    rel_l2: float
    differing: int
    first_index: tuple[int, ...] | None = None
    a_value: float | None = None
    b_value: float | None = None
    mismatch: str = ""

    def exceeds(self, tolerance: float) -> bool:
        """Whether it diverges; a tolerance of 0 asks for equal values."""
        return self.rel_l2 > tolerance or (tolerance == 0 and self.differing > 0)


def difference(a: Array, b: Array, tolerance: float) -> Difference:
    """Compare two arrays; floating types of different width are compared by value."""
    mismatch = _mismatch(a, b)
    if mismatch:
        return Difference(float("inf"), float("inf"), max(a.size, b.size), mismatch=mismatch)
    unequal = ~((a == b) | (np.not_equal(a, a) & np.not_equal(b, b)))
    differing = int(np.count_nonzero(unequal))
    if not differing:
        return Difference(0.0, 0.0, 0)
    parts = {"": (a, b)} if a.dtype.kind != "c" else {"re": (a.real, b.real), "im": (a.imag, b.imag)}
    error = error_against({k: v[0] for k, v in parts.items()}, {k: v[1] for k, v in parts.items()})
    where = _first(a, b, unequal, tolerance)
    if where is None:
        return Difference(error.max_abs_err, error.l2_rel_err, differing)
    return Difference(
        *(error.max_abs_err, error.l2_rel_err, differing),
        first_index=where,
        a_value=_number(a[where]),
        b_value=_number(b[where]),
    )


def _mismatch(a: Array, b: Array) -> str:
    if a.shape != b.shape:
        return f"shape {list(a.shape)} against {list(b.shape)}"
    kinds = [KINDS.get(array.dtype.kind, "a floating") for array in (a, b)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]} type, {a.dtype}, against {kinds[1]} one, {b.dtype}"
    return ""


def _first(a: Array, b: Array, unequal: Array, tolerance: float) -> tuple[int, ...] | None:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    got, wanted = a.astype(wide), b.astype(wide)
    finite = wanted[np.isfinite(wanted)]
    scale = float(np.sqrt(np.mean(np.abs(finite) ** 2))) if finite.size else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        small = np.abs(got - wanted) <= tolerance * scale  # false for a NaN and for an infinity
    beyond = unequal & ~small
    if not beyond.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(beyond)), a.shape))


def _number(value: Any) -> float:
    return float(value.real)
