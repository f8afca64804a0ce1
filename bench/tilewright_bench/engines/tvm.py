"""Apache TVM on the CPU: relax, compiled by LLVM for this processor, without tuning.

The package that PyPI has carries no schedules of its own for the CPU and no tuning logs, so this is what a
user gets who compiles a model and does no more.
"""

import time
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
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
    Session,
    Settings,
    one_of,
)
from tilewright_bench.engines.converted import (
    Signature,
    converted_path,
    read_note,
    signature_of,
    write_note,
)

BIG_CORES = 1  # what TVM's thread pool calls the mode that takes a number of threads


class TvmSession(Session):
    """A virtual machine with the compiled library; `run` copies inputs in and outputs out."""

    def __init__(self, path: Path, signature: Signature, settings: Settings) -> None:
        import tvm
        from tvm import relax

        tvm.get_global_func("runtime.config_threadpool")(BIG_CORES, settings.threads)
        running = int(tvm.get_global_func("runtime.NumThreads")())
        if running != settings.threads:
            raise UsageError(f"engine 'tvm' runs {running} threads where {settings.threads} are asked for")
        self._path, self._signature, self._settings = path, signature, settings
        self._tensor = tvm.runtime.tensor
        machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
        self._main = machine["main"]
        self._machine = machine
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.precision = settings.precision
        self.notes = {"computes_in": "fp32", "tuned": "no"}

    def run(self, inputs: Arrays) -> Arrays:
        results = self._main(*(self._tensor(inputs[tensor.name]) for tensor in self.inputs))
        found = [results] if hasattr(results, "numpy") else list(results)
        return {name: np.asarray(value.numpy()) for name, value in zip(self.outputs, found, strict=True)}

    def beside(self) -> Session:
        return TvmSession(self._path, self._signature, self._settings)


class TvmEngine(Engine):
    name = "tvm"
    classes = FLOAT32
    targets = ("cpu",)
    keys: Mapping[str, str] = {}

    def availability(self) -> Availability:
        if find_spec("tvm") is None:
            return Availability(False, reason="install it with: pip install apache-tvm")
        return Availability(True, version=version("apache-tvm"))

    def imports(self, spec: EngineSpec) -> None:
        from tvm import relax  # noqa: F401

    def prepare(self, model: Path, spec: EngineSpec, settings: Settings, folder: Path) -> Prepared:
        one_of(self.name, "precision", settings.precision, self.classes)
        import onnx
        import tvm
        from tvm.relax.frontend.onnx import from_onnx

        signature = signature_of(model, settings)
        shapes = {tensor.name: list(tensor.shape) for tensor in signature.inputs}
        start = time.perf_counter()
        target = tvm.target.Target(_host())
        with target:
            compiled = tvm.compile(from_onnx(onnx.load(model), shape_dict=shapes), target=target)
        seconds = time.perf_counter() - start
        path = converted_path(model, self.name, settings, folder, ".so")
        compiled.export_library(str(path))
        write_note(path, signature)
        return Prepared(path, compile_s=seconds)

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        return TvmSession(prepared.path, read_note(prepared.path), settings)


def _host() -> dict[str, Any]:
    """LLVM's target for this processor; its features count, since names are wrong on virtual machines."""
    from llvmlite import binding

    features = [name for name, here in sorted(binding.get_host_cpu_features().items()) if here]
    return {"kind": "llvm", "mcpu": "x86-64", "mattr": [f"+{name}" for name in features]}


ENGINE = TvmEngine()
