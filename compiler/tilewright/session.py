"""For people who come from ONNX Runtime: the part of its session that most programs use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import RunError
from tilewright.runtime.artefact import is_artefact
from tilewright.runtime.executable import Executable
from tilewright.runtime.package import Argument

_TYPE_NAMES = {"f64": "double", "f32": "float", "f16": "float16", "bf16": "bfloat16"}


class NodeArg(NamedTuple):
    """An input or output. type: as ONNX Runtime writes it, e.g. `tensor(float)`; shape: sizes that the first
    call binds have names.
    """

    name: str
    type: str
    shape: list[int | str]


class InferenceSession:
    """A model compiled for the CPU, or an artefact; options as of `tilewright.compile`."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        if is_artefact(Path(path)):
            self._executable = Executable.load(path, **options)
            return
        from tilewright.driver import compile

        self._executable = compile(path, **options)

    def get_inputs(self) -> list[NodeArg]:
        return [_node_arg(argument) for argument in self._executable.inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [_node_arg(argument) for argument in self._executable.outputs]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, np.ndarray]
    ) -> list[np.ndarray]:
        """The named outputs, or all, in order.

        Raises RunError for names, shapes and types that do not fit.
        """
        results = self._executable.run(input_feed)
        names = list(results) if output_names is None else list(output_names)
        unknown = [name for name in names if name not in results]
        if unknown:
            raise RunError(f"the model has no output '{unknown[0]}'; its outputs are {', '.join(results)}")
        return [results[name] for name in names]


def _node_arg(argument: Argument) -> NodeArg:
    dtype = DType.of(argument.dtype)
    name = _TYPE_NAMES.get(dtype.name, str(argument.dtype))
    return NodeArg(argument.name, f"tensor({name})", list(argument.shape))
