"""For people who come from ONNX Runtime: the part of its session that most programs use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import RunError, UsageError
from tilewright.runtime.artefact import is_artefact
from tilewright.runtime.executable import Executable
from tilewright.runtime.package import Argument

_PROVIDER = "CPUExecutionProvider"
_TYPE_NAMES = {"f64": "double", "f32": "float", "f16": "float16", "bf16": "bfloat16"}


class NodeArg(NamedTuple):
    """An input or output. type: as ONNX Runtime writes it, e.g. `tensor(float)`; shape: sizes that the first
    call binds have names.
    """

    name: str
    type: str
    shape: list[int | str]


class InferenceSession:
    """A model compiled for the CPU, or an artefact."""

    def __init__(
        self,
        path_or_bytes: str | Path | bytes,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **options: Any,
    ) -> None:
        """sess_options: `intra_op_num_threads` counts, the rest is about ONNX Runtime's own optimiser;
        providers: the CPU's, or none; options: as of `tilewright.compile`, of an artefact `threads` only.

        Raises UsageError for other providers and options, and as `compile` or `Executable.load`.
        """
        _check_providers(providers or (), provider_options or ())
        threads = getattr(sess_options, "intra_op_num_threads", 0)
        if threads:
            options.setdefault("threads", threads)
        if not isinstance(path_or_bytes, bytes) and is_artefact(Path(path_or_bytes)):
            unfit = [name for name in options if name != "threads"]
            if unfit:
                raise UsageError(f"{path_or_bytes} is compiled already: {unfit[0]}= is for models")
            self._executable = Executable.load(path_or_bytes, **options)
            return
        from tilewright.driver import compile

        self._executable = compile(path_or_bytes, **options)

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


def _check_providers(providers: Sequence[Any], settings: Sequence[Any]) -> None:
    names = [one if isinstance(one, str) else one[0] for one in providers]
    others = [name for name in names if name != _PROVIDER]
    if others:
        raise UsageError(
            f"provider '{others[0]}' is ONNX Runtime's own; give '{_PROVIDER}', or target= as of "
            "`tilewright.compile`"
        )
    if any(settings) or any(not isinstance(one, str) and one[1] for one in providers):
        raise UsageError(f"'{_PROVIDER}' has no options here; give threads= for the number of threads")


def _node_arg(argument: Argument) -> NodeArg:
    dtype = DType.of(argument.dtype)
    name = _TYPE_NAMES.get(dtype.name, str(argument.dtype))
    return NodeArg(argument.name, f"tensor({name})", list(argument.shape))
