"""The reference: a model evaluated operator by operator with NumPy, floating values in float64."""

from collections.abc import Mapping
from pathlib import Path

from tilewright_bench.engines.base import (
    Arrays,
    Availability,
    Engine,
    EngineSpec,
    Prepared,
    Session,
    Settings,
)
from tilewright_bench.engines.converted import signature_of
from tilewright_bench.reference import float64_reference


class Float64Session(Session):
    """Evaluates the file at every run."""

    def __init__(self, model: Path, settings: Settings) -> None:
        self._model, self._dims = model, settings.dims
        signature = signature_of(model, settings)
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.precision = "float64"  # a class of its own: no other engine is compared with it
        self.notes = {"computes_in": "float64"}

    def run(self, inputs: Arrays) -> Arrays:
        return float64_reference(self._model, inputs, self._dims)


class Float64Engine(Engine):
    name = "float64"
    targets = ("numpy",)
    keys: Mapping[str, str] = {}

    def availability(self) -> Availability:
        return Availability(True)

    def imports(self, spec: EngineSpec) -> None:
        return None

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        return Float64Session(prepared.path, settings)


ENGINE = Float64Engine()
