"""Options of a compilation, and the only place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_cache_path

from tilewright.errors import UsageError

# Precision modes with the relative L2 error that each allows; None: that depends on another engine's error
# (docs/precision.md).
PRECISIONS: Mapping[str, float | None] = {"fp32": None, "fp32-fast": 1e-4, "bf16": None}
# What `--without` leaves out: docs/bench.md, Ablations.
ABLATIONS = ("fusion", "storage", "packing", "winograd", "direct", "matrix")


@dataclass(frozen=True)
class CompileOptions:
    """What `compile` may be told.

    target: `cpu`, `opencl[:NAME]` or `numpy`; precision: a contract of docs/precision.md; threads: None for
    all usable CPUs;
    level: -O0 to -O3; without: optimisations left out, for ablations; dims: sizes of named dimensions.
    """

    target: str = "cpu"
    precision: str = "fp32"
    threads: int | None = None
    level: int = 3
    without: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    machine: Path | None = None
    cache_dir: Path | None = None
    verify_each: bool = False
    dump_dir: Path | None = None

    @property
    def caches(self) -> Path:
        """The folder of all caches: the one that was chosen, else the user's."""
        return self.cache_dir or default_cache_dir()

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(f"unknown precision '{self.precision}'; known: {', '.join(PRECISIONS)}")
        if self.level not in range(4):
            raise UsageError(f"optimisation level {self.level} does not exist; use 0 to 3")
        unknown = [name for name in self.without if name not in ABLATIONS]
        if unknown:
            raise UsageError(
                f"nothing to leave out is called '{unknown[0]}'; known are {', '.join(ABLATIONS)}, "
                "separated by commas"
            )
        wrong = [name for name, size in self.dims.items() if type(size) is not int or size < 0]
        if wrong:
            raise UsageError(
                f"dimension {wrong[0]}: its size is {self.dims[wrong[0]]!r}; give an integer of at least 0"
            )
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"--threads {self.threads}: at least one thread is needed")


def parts_left_out(text: str) -> tuple[str, ...]:
    """Names that are separated by commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def default_cache_dir() -> Path:
    """TILEWRIGHT_CACHE_DIR, or the user's cache directory."""
    chosen = os.environ.get("TILEWRIGHT_CACHE_DIR")
    return Path(chosen) if chosen else user_cache_path("tilewright")
