"""What an engine that reports its layers says: the time of each step inside the running network."""

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.errors import UsageError
from tilewright_bench.engines.base import Arrays, Session, Step
from tilewright_bench.statistics import Summary, summarise

# Kernels that do nothing but change a storage, whatever node they serve.
TRANSFORM = re.compile(r"(un)?pack_[0-9a-f]{12}")

MINIMUM_RUNS = 10
SECONDS = 2.0
MAXIMUM_RUNS = 200


@dataclass(frozen=True)
class TimedStep:
    """A step with the milliseconds of its runs."""

    step: Step
    ms: Summary


@dataclass
class Layer:
    """Steps that came from the same nodes of the model. `nodes` is empty for what the compiler added."""

    nodes: tuple[str, ...]
    steps: list[TimedStep] = field(default_factory=list)


def traced(session: Session, inputs: Arrays, engine: str) -> list[TimedStep]:
    """Run the network some ten to two hundred times; every step with its median, p10 and p90.

    Raises UsageError when the engine does not report its steps.
    """
    for _ in range(2):  # wakes threads, fills caches
        session.run(inputs)
    runs: list[Sequence[Step]] = []
    start = time.perf_counter()
    while len(runs) < MINIMUM_RUNS or (len(runs) < MAXIMUM_RUNS and time.perf_counter() - start < SECONDS):
        steps = session.trace(inputs)
        if steps is None:
            raise UsageError(
                f"engine '{engine}' does not report what its layers take; give tilewright:cpu as the first "
                "--engine, the others are asked layer by layer"
            )
        runs.append(steps)
    return [
        TimedStep(same[0], summarise([1e3 * step.seconds for step in same]))
        for same in zip(*runs, strict=True)
    ]


def grouped(steps: Sequence[TimedStep], known: Collection[str]) -> tuple[list[Layer], list[TimedStep]]:
    """Layers in the order of their first step, and the steps that belong to none: those of no `known` node,
    and changes of storage.

    Steps that share a node are one layer: an operator that became several kernels cannot be compared in
    parts.
    """
    layers: list[Layer] = []
    leftovers: list[TimedStep] = []
    for timed in steps:
        nodes = tuple(name for name in timed.step.nodes if name in known)
        if not nodes or TRANSFORM.fullmatch(timed.step.name):
            leftovers.append(timed)
            continue
        shared = [layer for layer in layers if not set(nodes).isdisjoint(layer.nodes)]
        if not shared:
            layers.append(Layer(nodes, [timed]))
            continue
        first, *rest = shared
        first.nodes = _union([first.nodes, *(layer.nodes for layer in rest), nodes])
        first.steps += [*(step for layer in rest for step in layer.steps), timed]
        layers = [layer for layer in layers if layer not in rest]
    return layers, leftovers


def _union(parts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_each(parts)))


def _each(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    for part in parts:
        yield from part
