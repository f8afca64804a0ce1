"""MNN on the CPU (extra `peers`), `precision` high: float32 storage and arithmetic.

Its wheel converts ONNX itself. The converter is called below MNN's own Python tool, because that tool
installs a package and reports its use over the network when it is imported.
"""

import sys
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import UsageError
from tilewright_bench.engines.base import (
    FLOAT32,
    Array,
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
    stdout_on_stderr,
    write_note,
)

CONVERTER = "import sys, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"
TYPES = ("float32", "int32", "int64", "uint8", "int8")


class MnnSession(Session):
    """A module with its runtime; `run` copies the outputs out, as the other engines do."""

    def __init__(self, path: Path, signature: Signature, settings: Settings) -> None:
        import MNN.expr as expr
        import MNN.nn as nn

        self._path, self._signature, self._settings = path, signature, settings
        config = {"backend": "CPU", "numThread": settings.threads, "precision": "high"}
        self._runtime = nn.create_runtime_manager((config,))
        names = [tensor.name for tensor in signature.inputs]
        self._module = nn.load_module_from_file(
            str(path), names, list(signature.outputs), runtime_manager=self._runtime
        )
        self._expr = expr
        self._types = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8, "int8": expr.int8}
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.precision = settings.precision
        self.l2_limit = FP32_L2_LIMIT
        self.notes = {"computes_in": "fp32 (precision high)"}

    def run(self, inputs: Arrays) -> Arrays:
        given = [self._variable(inputs[tensor.name]) for tensor in self.inputs]
        results = self._module.forward(given)
        found = results if isinstance(results, list | tuple) else [results]
        return {name: np.array(value.read()) for name, value in zip(self.outputs, found, strict=True)}

    def beside(self) -> Session:
        with stdout_on_stderr():
            return MnnSession(self._path, self._signature, self._settings)

    def _variable(self, array: Array) -> Any:
        if array.dtype == np.int64:  # its converter makes 32 bits of them
            array = array.astype(np.int32)
        return self._expr.const(array, list(array.shape), self._expr.NCHW, self._types[array.dtype.name])


class MnnEngine(Engine):
    name = "mnn"
    classes = FLOAT32
    targets = ("cpu",)
    keys: Mapping[str, str] = {}

    def availability(self) -> Availability:
        if find_spec("MNN") is None or find_spec("_tools") is None:
            return Availability(False, reason="install it with: pip install 'tilewright[peers]'")
        return Availability(True, version=version("MNN"))

    def imports(self, spec: EngineSpec) -> None:
        with stdout_on_stderr():
            import MNN.nn  # noqa: F401

    def prepare(self, model: Path, spec: EngineSpec, settings: Settings, folder: Path) -> Prepared:
        one_of(self.name, "precision", settings.precision, self.classes)
        signature = signature_of(model, settings)
        wrong = [tensor.name for tensor in signature.inputs if tensor.dtype.name not in TYPES]
        if wrong:
            raise UsageError(f"engine 'mnn' takes {', '.join(TYPES)}; other inputs: {', '.join(wrong)}")
        path = converted_path(model, self.name, settings, folder, ".mnn")
        command = [sys.executable, "-c", CONVERTER, "-f", "ONNX", "--modelFile", str(model.resolve())]
        convert(
            [*command, "--MNNModel", str(path), "--bizCode", "bench", "--useOriginRNNImpl"],
            path,
            self.name,
            folder,
        )
        write_note(path, signature)
        return Prepared(path)

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        with stdout_on_stderr():
            return MnnSession(prepared.path, read_note(prepared.path), settings)


ENGINE = MnnEngine()
