"""What a compiled network consists of: the hand-over from targets, which make it, to the runtime, which
runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Port:
    """An input or output: the model's name, element type as printed (`f32`), logical shape, byte offset in
    the mutable region.

    counts: of an output whose sizes depend on data: (axis, name of the segment's output that holds the size);
    `shape` is its bound.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    counts: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Segment:
    """Code for one target with its memory plan.

    code: what the target's device loads (an image, or OpenCL source with its launches as JSON);
    constants: one block, addressed by offsets that the code knows; mutable_bytes and arena_bytes: sizes of
    the other regions;
    features: what the machine must have; info: kernels, schedules, memory figures: everything `inspect`
    shows (JSON values).
    """

    target: str
    code: bytes
    constants: np.ndarray
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    mutable_bytes: int
    arena_bytes: int
    features: tuple[str, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)
