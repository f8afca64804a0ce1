"""Where a resized axis is read: coordinates, neighbours and their weights (ONNX Resize, every mode)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True)
class ResizedAxis:
    """One axis that is resized from `extent` to `size` elements; start and end limit the region of interest.

    `scale * extent` may be a fraction, of which `size` is the whole part.
    """

    extent: int
    size: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def is_whole(self) -> bool:
        """Whether nothing changes."""
        return self.extent == self.size and self.scale == 1 and (self.start, self.end) == (0, 1)

    def coordinates(self, mode: str) -> np.ndarray:
        """Where each element of the result lies in the operand, f64[size]; it may lie outside."""
        y = np.arange(self.size, dtype=np.float64)
        wanted = self.scale * self.extent
        last = self.extent - 1
        if mode == "align_corners":
            return np.zeros_like(y) if wanted == 1 else y * last / (wanted - 1)
        if mode == "asymmetric":
            return y / self.scale
        if mode == "tf_half_pixel_for_nn":
            return (y + 0.5) / self.scale
        if mode == "tf_crop_and_resize":
            span = (self.end - self.start) * last
            return self.start * last + (np.full_like(y, span / 2) if wanted == 1 else y * span / (wanted - 1))
        if mode == "pytorch_half_pixel" and self.size == 1:
            return np.zeros_like(y)
        shift = self.extent / 2 * (1 - self.size / wanted) if mode == "half_pixel_symmetric" else 0.0
        return np.asarray(shift + (y + 0.5) / self.scale - 0.5)

    def outside(self, coordinates: np.ndarray) -> np.ndarray:
        """Which coordinates tf_crop_and_resize extrapolates, bool[size]."""
        return np.asarray((coordinates < 0) | (coordinates > self.extent - 1))

    def nearest(self, coordinates: np.ndarray, rounding: str) -> np.ndarray:
        """The element that each result copies, i64[size]."""
        places = ROUNDINGS[rounding](coordinates).astype(np.int64)
        return np.clip(places, 0, self.extent - 1)

    def table(
        self, coordinates: np.ndarray, kernel: Kernel, antialias: bool, exclude_outside: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Neighbours and weights, i64[size, taps] and f64[size, taps].

        Downscaling with antialias widens the kernel. A neighbour outside the axis repeats the edge, or with
        exclude_outside gets no weight, and the others share it.
        """
        narrow = min(self.scale, 1.0) if antialias else 1.0
        reach = ceil(kernel.radius / narrow)
        first = np.floor(coordinates).astype(np.int64)[:, None]
        places = first + np.arange(1 - reach, 1 + reach)
        weights = kernel.weights((places - coordinates[:, None]) * narrow)
        if exclude_outside:
            weights = np.where((places < 0) | (places >= self.extent), 0.0, weights)
        if antialias or exclude_outside:
            total = weights.sum(axis=1, keepdims=True)
            weights = weights / np.where(total == 0, 1.0, total)
        return np.clip(places, 0, self.extent - 1), weights


@dataclass(frozen=True)
class Kernel:
    """An interpolation kernel: `weights` of signed distances, zero beyond `radius`."""

    radius: int
    weights: Callable[[np.ndarray], np.ndarray]


LINEAR = Kernel(1, lambda distance: np.clip(1 - np.abs(distance), 0, 1))


def cubic(a: float) -> Kernel:
    """Cubic convolution with the coefficient a (Keys 1981)."""

    def weights(distance: np.ndarray) -> np.ndarray:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return Kernel(2, weights)
