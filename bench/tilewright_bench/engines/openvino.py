"""OpenVINO on the CPU (extra `peers`).

Left alone it computes in bf16 on machines with bf16 units. The precision of the comparison is therefore given
as a hint, and what the compiled model reports back is what the row says. `precision=default` leaves the
choice to it.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import UsageError
from tilewright_bench.engines.base import (
    Arrays,
    Availability,
    Engine,
    EngineSpec,
    Prepared,
    Session,
    Settings,
    Tensor,
    bound_shape,
    class_of,
)

HINTS: Mapping[str, str] = {"fp32": "f32", "fp32-fast": "f32", "bf16": "bf16", "fp16": "f16"}
CLASSES: Mapping[str, str] = {"f32": "fp32", "float": "fp32", "bf16": "bf16", "f16": "fp16"}


class OpenVinoSession(Session):
    """One infer request of a compiled model; `run` copies the outputs out, as the other engines do."""

    def __init__(self, compiled: Any, asked: str, streams: int) -> None:
        self._compiled, self._asked = compiled, asked
        self._request = compiled.create_infer_request()
        self._ports = [(port.get_any_name(), port) for port in compiled.outputs]
        self.inputs = [_tensor(port) for port in compiled.inputs]
        self.outputs = [name for name, _ in self._ports]
        used = str(compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name())
        self.precision = class_of(_precision_of(used), asked)
        self.notes = {"computes_in": used, "streams": streams}

    def run(self, inputs: Arrays) -> Arrays:
        results = self._request.infer(dict(inputs), share_inputs=True, share_outputs=True)
        return {name: np.array(results[port]) for name, port in self._ports}

    def beside(self) -> Session:
        return OpenVinoSession(self._compiled, self._asked, self.notes["streams"])


class OpenVinoEngine(Engine):
    name = "openvino"
    targets = ("cpu",)
    keys: Mapping[str, str] = {
        "precision": "fp32, bf16, fp16, or default: what OpenVINO chooses (if absent: that of the run)"
    }
    choices: Mapping[str, Sequence[str]] = {"precision": (*HINTS, "default")}

    def availability(self) -> Availability:
        if find_spec("openvino") is None:
            return Availability(False, reason="install it with: pip install 'tilewright[peers]'")
        import openvino

        return Availability(True, version=str(openvino.__version__))

    def imports(self, spec: EngineSpec) -> None:
        import openvino  # noqa: F401

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        import openvino

        wanted = spec.options.get("precision", settings.precision)
        core = openvino.Core()
        model = core.read_model(str(prepared.path))
        _bind(model, prepared.path, settings.dims)
        config: dict[str, Any] = {
            # Runs at the same time need a stream each, and share the threads between them.
            "INFERENCE_NUM_THREADS": settings.threads * settings.concurrency,
            "NUM_STREAMS": settings.concurrency,
            "PERFORMANCE_HINT": "LATENCY",
            # The process is pinned already; a second pinning would choose its own CPUs.
            "ENABLE_CPU_PINNING": False,
        }
        if wanted in HINTS:
            config["INFERENCE_PRECISION_HINT"] = HINTS[wanted]
        compiled = core.compile_model(model, "CPU", config)
        return OpenVinoSession(compiled, settings.precision, settings.concurrency)


def _precision_of(used: str) -> str:
    if used not in CLASSES:
        raise UsageError(
            f"engine 'openvino' reports the inference precision '{used}', which is no class here"
        )
    return CLASSES[used]


def _bind(model: Any, path: Path, dims: Mapping[str, int]) -> None:
    if not any(port.get_partial_shape().is_dynamic for port in model.inputs):
        return
    named = _named_shapes(path)
    names = [port.get_any_name() for port in model.inputs]
    model.reshape({name: list(bound_shape(named[name], dims, f"input '{name}'")) for name in names})


def _named_shapes(path: Path) -> dict[str, list[int | str | None]]:
    """The inputs' shapes as the file writes them: OpenVINO's reader forgets the names of dimensions."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in graph.input
    }


def _tensor(port: Any) -> Tensor:
    return Tensor(port.get_any_name(), np.dtype(port.get_element_type().to_dtype()), tuple(port.shape))


ENGINE = OpenVinoEngine()
