"""A world without time: a virtual clock, and an engine that needs no library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tilewright_bench.engines.base import (
    Arrays,
    Availability,
    Engine,
    EngineSpec,
    Prepared,
    Session,
    Settings,
    Tensor,
)
from tilewright_bench.measure import Clock


@dataclass
class VirtualTime:
    """Seconds that pass only when a call says so."""

    now: float = 0.0
    waits: int = 0

    def clock(self) -> Clock:
        return Clock(now_s=lambda: self.now, wait_until_quiet=self._wait)

    def call(self, seconds: Callable[[], float]) -> Callable[[], None]:
        """A call that takes `seconds()`."""

        def run() -> None:
            self.now += seconds()

        return run

    def _wait(self) -> bool:
        self.waits += 1
        return True


class FakeSession(Session):
    """y = x · gain on [1, 4]; fails on the first run when the engine's option says so."""

    def __init__(self, spec: EngineSpec, settings: Settings) -> None:
        self.inputs = [Tensor("x", np.dtype(np.float32), (1, 4))]
        self.outputs = ["y"]
        self.precision = spec.options.get("precision", settings.precision)
        self.notes: Mapping[str, str] = {}
        self._gain = np.float32(spec.options.get("gain", "1"))
        self._fails = spec.options.get("fails") == "run"

    def run(self, inputs: Arrays) -> Arrays:
        if self._fails:
            raise RuntimeError("the fake engine was told to fail")
        return {"y": inputs["x"] * self._gain}


@dataclass
class FakeEngine(Engine):
    """An engine without a library; `available` False is one that is not installed."""

    name: str = "fake"
    targets: tuple[str, ...] = ("cpu", "opencl")
    keys: Mapping[str, str] = field(
        default_factory=lambda: {"gain": "a factor", "fails": "load or run", "precision": "a class"}
    )
    available: bool = True

    def availability(self) -> Availability:
        reason = "" if self.available else "install it with: pip install fake"
        return Availability(self.available, version="1.0", reason=reason)

    def imports(self, spec: EngineSpec) -> None:
        return None

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        if spec.options.get("fails") == "load":
            raise RuntimeError("the fake engine cannot load this")
        return FakeSession(spec, settings)
