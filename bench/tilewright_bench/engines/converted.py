"""What engines share that read a format of their own: the converted file, and beside it a note of the model's
inputs and outputs, which such formats rename or forget.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from tilewright.errors import RunError
from tilewright_bench.engines.base import Settings, Tensor, bound_shape

NOTE = ".json"
TIMEOUT_S = 600

# A relative error beyond this is not what float32 arithmetic makes of these models: half-precision storage or
# an inaccurate algorithm is in use.
FP32_L2_LIMIT = 1e-4


@dataclass(frozen=True)
class Signature:
    """Inputs with their types, and the names of the outputs, in the model's order."""

    inputs: Sequence[Tensor]
    outputs: Sequence[str]


def signature_of(model: Path, settings: Settings) -> Signature:
    """Of an ONNX file. Raises UsageError for dimensions without a value."""
    graph = onnx.load(model, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [_tensor(value, settings) for value in graph.input if value.name not in stored]
    return Signature(inputs, [value.name for value in graph.output])


def converted_path(model: Path, engine: str, settings: Settings, folder: Path, suffix: str) -> Path:
    """Where the converted file of a model goes; different settings never share one."""
    name = hashlib.sha256(f"{model}|{engine}|{settings}".encode()).hexdigest()[:16]
    return folder / f"{engine}-{name}{suffix}"


def write_note(path: Path, signature: Signature) -> None:
    """Put the signature beside the converted file."""
    inputs = [
        {"name": tensor.name, "dtype": str(tensor.dtype), "shape": tensor.shape}
        for tensor in signature.inputs
    ]
    text = json.dumps({"inputs": inputs, "outputs": list(signature.outputs)})
    path.with_name(path.name + NOTE).write_text(text)


def read_note(path: Path) -> Signature:
    """What `write_note` wrote."""
    note = json.loads(path.with_name(path.name + NOTE).read_text())
    inputs = [Tensor(item["name"], np.dtype(item["dtype"]), tuple(item["shape"])) for item in note["inputs"]]
    return Signature(inputs, note["outputs"])


def convert(command: Sequence[str], made: Path, engine: str, folder: Path) -> None:
    """Run a converter in `folder`; what it prints stays out of ours. Raises RunError when `made` does not
    appear.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode == 0 and made.is_file():
        return
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    raise RunError(f"engine '{engine}' cannot convert the model: {lines[-1] if lines else 'no reason given'}")


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """What a library prints natively goes to stderr: stdout may be for JSON alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _tensor(value: onnx.ValueInfoProto, settings: Settings) -> Tensor:
    tensor = value.type.tensor_type
    shape = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return Tensor(value.name, dtype, bound_shape(shape, settings.dims, f"input '{value.name}'"))
