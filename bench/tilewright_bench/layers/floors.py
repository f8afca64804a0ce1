"""What a layer takes at least on this machine: its operations at the measured rate of multiply-adds, or its
bytes at the measured rate of reading, whichever takes longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright_bench.engines.base import Step


class Ceilings(Protocol):
    """As `tilewright.measure_ceilings` returns them."""

    @property
    def threads(self) -> int: ...
    @property
    def fma_gflops(self) -> float: ...
    @property
    def read(self) -> tuple[tuple[int, float], ...]: ...
    def bandwidth(self, footprint: int) -> float: ...


@dataclass(frozen=True)
class Floor:
    """`bound` is 'fma' or 'read': which of the two decides; `ms` is the sum over the steps."""

    ms: float
    bound: str


def floor_of(steps: Sequence[Step], needed: int | None, ceilings: Ceilings) -> Floor:
    """The floor of steps that follow one another; `needed` are the operations that their result needs, None
    for those that the steps count.

    Bytes are read at the rate of the fastest cache that holds a step's footprint, so the floor holds for warm
    data too. It says nothing of steps that touch only parts of their operands, such as Gather.
    """
    counted = sum(step.flops for step in steps)
    scale = 1.0 if needed is None or not counted else needed / counted
    fma = [1e3 * scale * step.flops / (ceilings.fma_gflops * 1e9) for step in steps]
    read = [1e3 * step.bytes / (ceilings.bandwidth(step.footprint) * 1e9) for step in steps]
    total = sum(map(max, fma, read))
    return Floor(total, "fma" if sum(fma) >= sum(read) else "read")


def as_json(ceilings: Ceilings) -> dict[str, Any]:
    """The ceilings as JSON values."""
    return {
        "threads": ceilings.threads,
        "fma_gflops": ceilings.fma_gflops,
        "read": [{"bytes": size, "gb_per_s": rate} for size, rate in ceilings.read],
    }
