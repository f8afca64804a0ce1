"""ONNX Runtime on the CPU: the baseline of every comparison.

Sequential execution, one inter-op thread, and as many intra-op threads as the comparison asks for. Its
workers keep spinning for a moment after a run; that is its default and is left on, because switching it off
slows the engine down. `measure` waits the spinning out before each block instead, so it costs no other engine
anything.
"""

from collections.abc import Mapping
from importlib.util import find_spec
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
    one_of,
)

# ONNX Runtime computes a float32 model in float32, which also keeps the looser contract.
COMPUTED_IN_FP32 = ("fp32", "fp32-fast")

ELEMENT_TYPES: Mapping[str, str] = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


class OrtSession(Session):
    """An `onnxruntime.InferenceSession` behind the common boundary."""

    def __init__(self, session: Any, settings: Settings, spinning: str) -> None:
        self._session = session
        self.inputs = [_tensor(value, settings.dims) for value in session.get_inputs()]
        self.outputs = [value.name for value in session.get_outputs()]
        self.precision = settings.precision
        self.notes = {"spinning": spinning, "computes_in": "fp32"}

    def run(self, inputs: Arrays) -> Arrays:
        return dict(zip(self.outputs, self._session.run(self.outputs, inputs), strict=True))


class OrtEngine(Engine):
    name = "ort"
    targets = ("cpu",)
    keys: Mapping[str, str] = {
        "opt": "0, 1, 2 or 3: none, basic, extended or all graph optimisations (default 3)",
        "spinning": "on or off: whether idle workers spin (default on, waited out before each block)",
    }

    def availability(self) -> Availability:
        if find_spec("onnxruntime") is None:
            return Availability(False, reason="install it with: pip install onnxruntime")
        import onnxruntime

        return Availability(True, version=onnxruntime.__version__)

    def imports(self, spec: EngineSpec) -> None:
        import onnxruntime  # noqa: F401

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        import onnxruntime as ort

        if settings.precision not in COMPUTED_IN_FP32:
            raise UsageError(
                f"engine 'ort' runs a model in the element types it is written in; --precision "
                f"{settings.precision} is not one of {', '.join(COMPUTED_IN_FP32)}"
            )
        spinning = one_of(self.name, "spinning", spec.options.get("spinning", "on"), ("on", "off"))
        level = one_of(self.name, "opt", spec.options.get("opt", "3"), ("0", "1", "2", "3"))
        options = ort.SessionOptions()
        options.intra_op_num_threads = settings.threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = _levels(ort)[int(level)]
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning == "on" else "0")
        for name, extent in settings.dims.items():
            options.add_free_dimension_override_by_name(name, extent)
        session = ort.InferenceSession(prepared.path, options, providers=["CPUExecutionProvider"])
        return OrtSession(session, settings, spinning)


def _levels(ort: Any) -> tuple[Any, ...]:
    level = ort.GraphOptimizationLevel
    return (level.ORT_DISABLE_ALL, level.ORT_ENABLE_BASIC, level.ORT_ENABLE_EXTENDED, level.ORT_ENABLE_ALL)


def _tensor(value: Any, dims: Mapping[str, int]) -> Tensor:
    if value.type not in ELEMENT_TYPES:
        raise UsageError(f"input '{value.name}' is a {value.type}; only dense numbers can be measured")
    shape = bound_shape(value.shape, dims, f"input '{value.name}'")
    return Tensor(value.name, np.dtype(ELEMENT_TYPES[value.type]), shape)


ENGINE = OrtEngine()
