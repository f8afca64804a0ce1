"""An executable as data: what is compiled once, saved, and loaded onto devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import DTYPES
from tilewright.errors import ArtefactError
from tilewright.segment import Port, Segment


class Argument(NamedTuple):
    """An input or output of an executable: its name, NumPy element type and shape.

    shape: numbers, or names of sizes that are bound at the first call.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"'{self.name}' {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Package:
    """model: sha256 of the model file, empty if there was none; target: as in `--target`; versions: of what
    made it.

    segments run in order; values pass between them, and to and from the caller, by name.
    inputs and outputs: names, in the order of the model; info: what `inspect` shows about the whole.
    """

    model: str
    target: str
    segments: tuple[Segment, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    versions: dict[str, str] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)

    def arguments(self) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
        """Inputs and outputs with their types.

        Raises ArtefactError when no segment has a port of that name.
        """
        takes = {port.name: port for segment in self.segments for port in segment.inputs}
        gives = {port.name: port for segment in self.segments for port in segment.outputs}
        inputs = tuple(argument(_find(takes, name)) for name in self.inputs)
        return inputs, tuple(argument(_find(gives, name)) for name in self.outputs)


def argument(port: Port) -> Argument:
    """A port as the caller sees it."""
    return Argument(port.name, DTYPES[port.dtype].numpy, port.shape)


def _find(ports: dict[str, Port], name: str) -> Port:
    if name not in ports:
        raise ArtefactError(f"no segment has a port '{name}'; there are: {', '.join(ports)}")
    return ports[name]
