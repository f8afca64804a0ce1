"""What a compiled network consists of, and what a device makes of it. The runtime knows nothing of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Port:
    """An input or output: the model's name, element type as printed (`f32`), logical shape, byte offset in the mutable region."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Segment:
    """Code for one target with its memory plan.

    code: what the target's device loads (an image, or OpenCL source with its launches as JSON);
    constants: one block, addressed by offsets that the code knows; mutable_bytes and arena_bytes: sizes of the other regions;
    features: what the machine must have; info: kernels, schedules, memory figures: everything `inspect` shows (JSON values).
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


class Loaded(Protocol):
    """A segment on its device, ready to run. `run` may be called from several threads at once."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Reads C-contiguous inputs of the ports' types, fills C-contiguous outputs. Raises RunError."""
        ...


class Device(Protocol):
    """Loads segments of one target. Entry-point group `tilewright.devices`, by target name."""

    name: str

    def load(self, segment: Segment, threads: int) -> Loaded:
        """Raises ArtefactError when this machine lacks what the segment needs."""
        ...
