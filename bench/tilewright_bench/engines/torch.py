"""PyTorch: listed so that a request for it is answered; it has no reader of ONNX files.

Every engine here is given the same ONNX file. PyTorch writes that format and does not read it, and rebuilding
a model by hand in another library would compare two models.
"""

from collections.abc import Mapping

from tilewright.errors import UsageError
from tilewright_bench.engines.base import Availability, Engine, EngineSpec, Prepared, Session, Settings

REASON = "PyTorch does not read ONNX files, and engines are compared on one and the same file"


class TorchEngine(Engine):
    name = "torch"
    targets = ("cpu",)
    keys: Mapping[str, str] = {}

    def availability(self) -> Availability:
        return Availability(False, reason=REASON)

    def imports(self, spec: EngineSpec) -> None:
        raise UsageError(f"engine 'torch' is not available: {REASON}")

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        raise UsageError(f"engine 'torch' is not available: {REASON}")


ENGINE = TorchEngine()
