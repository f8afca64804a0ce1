"""ncnn on the CPU, with its half-precision storage and arithmetic switched off.

Left alone it keeps weights and activations in 16 bits, an error of several 1e-4; `precision=default` leaves
that to it. Models are converted by pnnx, a package of its own that brings torch along.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import RunError, UsageError
from tilewright_bench.engines.base import (
    FLOAT32,
    Arrays,
    Availability,
    Engine,
    EngineSpec,
    Prepared,
    Session,
    Settings,
    one_of,
)
from tilewright_bench.engines.converted import (
    FP32_L2_LIMIT,
    Signature,
    convert,
    converted_path,
    read_note,
    signature_of,
    write_note,
)

HALF = (
    *("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"),
    *("use_bf16_packed", "use_bf16_storage"),
)


class NcnnSession(Session):
    """A loaded net; each run is an extractor of its own, so runs may overlap."""

    def __init__(self, path: Path, signature: Signature, settings: Settings, wanted: str) -> None:
        import ncnn

        self._ncnn = ncnn
        self._net = ncnn.Net()
        options = self._net.opt
        options.num_threads = settings.threads
        options.use_vulkan_compute = False
        if wanted != "default":
            for name in HALF:
                setattr(options, name, False)
        if self._net.load_param(str(path)) or self._net.load_model(str(path.with_suffix(".bin"))):
            raise RunError(f"engine 'ncnn' does not load the converted model {path}")
        self._ports = (self._net.input_names(), self._net.output_names())
        counts = (len(signature.inputs), len(signature.outputs))
        if tuple(map(len, self._ports)) != counts:
            raise RunError(f"engine 'ncnn': the converted model has the inputs and outputs {self._ports}")
        self.inputs, self.outputs = signature.inputs, signature.outputs
        half = [name for name in HALF if getattr(options, name)]
        self.precision = "fp16" if half else settings.precision
        self.l2_limit = None if half else FP32_L2_LIMIT
        self.notes = {"computes_in": f"fp16 ({', '.join(half)})" if half else "fp32"}

    def run(self, inputs: Arrays) -> Arrays:
        given, wanted = self._ports
        with self._net.create_extractor() as extractor:
            for name, tensor in zip(given, self.inputs, strict=True):
                extractor.input(name, self._ncnn.Mat(inputs[tensor.name], batch_index=0).clone())
            found: dict[str, Any] = {}
            for port, name in zip(wanted, self.outputs, strict=True):
                status, mat = extractor.extract(port)
                if status:
                    raise RunError(f"engine 'ncnn' cannot compute output '{name}': status {status}")
                found[name] = np.array(mat.numpy(batch_index=0))
        return found


class NcnnEngine(Engine):
    name = "ncnn"
    classes = FLOAT32
    targets = ("cpu",)
    keys: Mapping[str, str] = {
        "precision": "fp32, or default: what ncnn chooses (if absent: that of the run)"
    }
    choices: Mapping[str, Sequence[str]] = {"precision": (*FLOAT32, "default")}

    def availability(self) -> Availability:
        missing = [name for name in ("ncnn", "pnnx") if find_spec(name) is None]
        if missing:
            reason = f"install it with: pip install {' '.join(missing)}"
            return Availability(False, reason=f"{reason} (pnnx converts ONNX, and needs torch)")
        return Availability(True, version=version("ncnn"))

    def imports(self, spec: EngineSpec) -> None:
        import ncnn  # noqa: F401

    def prepare(self, model: Path, spec: EngineSpec, settings: Settings, folder: Path) -> Prepared:
        signature = signature_of(model, settings)
        wrong = [tensor.name for tensor in signature.inputs if tensor.dtype != np.float32]
        if wrong:
            raise UsageError(f"engine 'ncnn' takes float32; other inputs: {', '.join(wrong)}")
        path = converted_path(model, self.name, settings, folder, ".param")
        shapes = ",".join(f"[{','.join(map(str, tensor.shape))}]" for tensor in signature.inputs)
        outputs = [f"ncnnparam={path}", f"ncnnbin={path.with_suffix('.bin')}"]
        kinds = ("pnnxparam", "pnnxbin", "pnnxpy", "pnnxonnx", "ncnnpy")
        outputs += [f"{kind}={path.with_suffix('.' + kind)}" for kind in kinds]
        command = [str(_converter()), str(model.resolve()), f"inputshape={shapes}", "fp16=0", *outputs]
        convert(command, path, self.name, folder)
        write_note(path, signature)
        return Prepared(path)

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        wanted = spec.options.get("precision", settings.precision)
        one_of(self.name, "precision", wanted, (*self.classes, "default"))
        return NcnnSession(prepared.path, read_note(prepared.path), settings, wanted)


def _converter() -> Path:
    """The program inside the package: importing the package itself would import torch."""
    spec = find_spec("pnnx")
    if spec is None or spec.origin is None:
        raise UsageError("engine 'ncnn' converts models with pnnx: pip install pnnx")
    return Path(spec.origin).with_name("pnnx")


ENGINE = NcnnEngine()
