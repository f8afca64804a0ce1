"""What a layer takes at least on this machine: its operations at the measured rates of the units that do
them, or its bytes at the measured rate of reading, whichever takes longer.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    def dots(self) -> Mapping[str, float]: ...
    @property
    def read(self) -> tuple[tuple[int, float], ...]: ...
    def bandwidth(self, footprint: int) -> float: ...


FMA = "fma"  # multiply-adds of f32; what no intrinsic does is held against their rate
_UNITS = {
    "dot_pairs": "bf16",
    "dot_quads": "int8",
    "dot_tile_pairs": "amx_bf16",
    "dot_tile_quads": "amx_int8",
}
_UNMEASURED = ("dot_tile_pairs", "dot_tile_quads")


@dataclass(frozen=True)
class Floor:
    """`bound` is 'read' or the unit of the products: which of the two decides; `ms` is the sum over the
    steps.
    """

    ms: float
    bound: str


def unit_of(steps: Sequence[Step], ceilings: Ceilings) -> tuple[str, float | None]:
    """The unit that does most of the steps' operations, and its 10^9 operations a second, if measured."""
    counts: dict[str, int] = {}
    for step in steps:
        for name, count in _by_intrinsic(step, ceilings):
            counts[name] = counts.get(name, 0) + count
    most = max(counts, key=lambda name: counts[name])
    return _UNITS.get(most, FMA), None if most in _UNMEASURED else ceilings.dots.get(
        most, ceilings.fma_gflops
    )


def floor_of(steps: Sequence[Step], needed: int | None, ceilings: Ceilings) -> Floor:
    """The floor of steps that follow one another; `needed` are the operations that their result needs, None
    for those that the steps count.

    Bytes are read at the rate of the fastest cache that holds a step's footprint, so the floor holds for warm
    data too. It says nothing of steps that touch only parts of their operands, such as Gather.
    """
    counted = sum(step.flops + step.int_ops for step in steps)
    scale = 1.0 if needed is None or not counted else needed / counted
    compute = [1e3 * scale * _seconds(step, ceilings) for step in steps]
    read = [1e3 * step.bytes / (ceilings.bandwidth(step.footprint) * 1e9) for step in steps]
    total = sum(map(max, compute, read))
    return Floor(total, unit_of(steps, ceilings)[0] if sum(compute) >= sum(read) else "read")


def _seconds(step: Step, ceilings: Ceilings) -> float:
    """What the operations take at the measured rates: one after the other, as the units share their ports."""
    rates = {"": ceilings.fma_gflops, **ceilings.dots}
    counts = _by_intrinsic(step, ceilings)
    return sum(count / (rates[name] * 1e9) for name, count in counts if name not in _UNMEASURED)


def _by_intrinsic(step: Step, ceilings: Ceilings) -> Iterable[tuple[str, int]]:
    """Operations by the intrinsic that does them, '' where none does. An instruction that the machine lacks
    does nothing: those loops run lane by lane.
    """
    known = (*ceilings.dots, *_UNMEASURED)
    done = {name: count for name, count in step.intrinsics.items() if name in known}
    return [("", step.flops + step.int_ops - sum(done.values())), *done.items()]


def as_json(ceilings: Ceilings) -> dict[str, Any]:
    """The ceilings as JSON values."""
    return {
        "threads": ceilings.threads,
        "fma_gflops": ceilings.fma_gflops,
        "units": {FMA: ceilings.fma_gflops, **{_UNITS[name]: rate for name, rate in ceilings.dots.items()}},
        "read": [{"bytes": size, "gb_per_s": rate} for size, rate in ceilings.read],
    }
