"""ONNX Runtime on the CPU: the baseline of every comparison.

Sequential execution, one inter-op thread, and as many intra-op threads as the comparison asks for. Its
workers keep spinning for a moment after a run; that is its default and is left on, because switching it off
slows the engine down. `measure` waits the spinning out before each block instead, so it costs no other engine
anything.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tilewright.errors import UsageError
from tilewright_bench.engines.base import (
    FLOAT32,
    Arrays,
    Availability,
    Engine,
    EngineSpec,
    Prepared,
    Profiled,
    Session,
    Settings,
    Tensor,
    bound_shape,
)

KERNEL_TIME = "_kernel_time"  # how the profiler calls the time that a node's kernel takes
WARM_UP = 2  # runs that are profiled and not counted

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
    classes = FLOAT32
    targets = ("cpu",)
    keys: Mapping[str, str] = {
        "opt": "0, 1, 2 or 3: none, basic, extended or all graph optimisations (default 3)",
        "spinning": "on or off: whether idle workers spin (default on, waited out before each block)",
    }
    choices: Mapping[str, Sequence[str]] = {"opt": ("0", "1", "2", "3"), "spinning": ("on", "off")}

    def availability(self) -> Availability:
        if find_spec("onnxruntime") is None:
            return Availability(False, reason="install it with: pip install onnxruntime")
        import onnxruntime

        return Availability(True, version=onnxruntime.__version__)

    def imports(self, spec: EngineSpec) -> None:
        import onnxruntime  # noqa: F401

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        session, spinning = self._open(prepared, spec, settings, None)
        return OrtSession(session, settings, spinning)

    def profile(
        self, prepared: Prepared, spec: EngineSpec, settings: Settings, inputs: Arrays, runs: int
    ) -> Sequence[Profiled]:
        """Session profiling. Its clock counts microseconds, and it costs each node some of them."""
        with tempfile.TemporaryDirectory(prefix="tilewright-ort-") as folder:
            session, _ = self._open(prepared, spec, settings, Path(folder) / "profile")
            for _ in range(WARM_UP + runs):
                session.run(None, inputs)
            events = json.loads(Path(session.end_profiling()).read_text())
        spent: dict[str, list[float]] = {}
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith(KERNEL_TIME):
                spent.setdefault(event["name"].removesuffix(KERNEL_TIME), []).append(event["dur"] / 1e3)
        return [Profiled(_names(name), median(times[-runs:])) for name, times in spent.items()]

    def _open(
        self, prepared: Prepared, spec: EngineSpec, settings: Settings, profile: Path | None
    ) -> tuple[Any, str]:
        """The session, and whether its idle workers spin."""
        import onnxruntime as ort

        if settings.precision not in self.classes:
            raise UsageError(
                f"engine 'ort' runs a model in the element types it is written in; --precision "
                f"{settings.precision} is not one of {', '.join(self.classes)}"
            )
        spinning = spec.options.get("spinning", "on")
        level = spec.options.get("opt", "3")
        options = ort.SessionOptions()
        options.intra_op_num_threads = settings.threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = _levels(ort)[int(level)]
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning == "on" else "0")
        for name, extent in settings.dims.items():
            options.add_free_dimension_override_by_name(name, extent)
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(profile)
        return ort.InferenceSession(prepared.path, options, providers=["CPUExecutionProvider"]), spinning


def _names(node: str) -> tuple[str, ...]:
    """A node of the optimised graph is called after a node of the model, or after the result it gives."""
    plain = node.removesuffix("_nchwc").removeprefix("fused ")
    return tuple(dict.fromkeys((node, plain, plain.rpartition("/")[0])))


def _levels(ort: Any) -> tuple[Any, ...]:
    level = ort.GraphOptimizationLevel
    return (level.ORT_DISABLE_ALL, level.ORT_ENABLE_BASIC, level.ORT_ENABLE_EXTENDED, level.ORT_ENABLE_ALL)


def _tensor(value: Any, dims: Mapping[str, int]) -> Tensor:
    if value.type not in ELEMENT_TYPES:
        raise UsageError(f"input '{value.name}' is a {value.type}; only dense numbers can be measured")
    shape = bound_shape(value.shape, dims, f"input '{value.name}'")
    return Tensor(value.name, np.dtype(ELEMENT_TYPES[value.type]), shape)


ENGINE = OrtEngine()
