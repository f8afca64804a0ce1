"""What the runtime asks of a device. The runtime knows nothing of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from tilewright.segment import Segment


class Loaded(Protocol):
    """A segment on its device, ready to run. `run` may be called from several threads at once."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Reads C-contiguous inputs of the ports' types, fills C-contiguous outputs. Raises RunError."""
        ...


@runtime_checkable
class Tracing(Protocol):
    """A loaded segment that can tell where its time goes."""

    def trace(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """As `run`; the seconds spent in each instruction by its name, in order of execution."""
        ...


class Device(Protocol):
    """Loads segments of one target. Entry-point group `tilewright.devices`, by target name."""

    name: str

    def load(self, segment: Segment, threads: int) -> Loaded:
        """Raises ArtefactError when this machine lacks what the segment needs."""
        ...

    def require(self, features: Sequence[str]) -> None:
        """Raises ArtefactError when this machine would refuse every segment that lists these features."""
        ...
