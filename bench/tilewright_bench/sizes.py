"""`--dim NAME=N` for commands that read several models: each takes the sizes that it has."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from tilewright.errors import UsageError


def known_sizes(model: Path, dims: Mapping[str, int]) -> dict[str, int]:
    """Those of `dims` that a model has: named dimensions, and unnamed ones as `input:axis`."""
    names = set(_names(model)) if dims else set()
    return {name: size for name, size in dims.items() if name in names}


def check_sizes(models: Iterable[Path], dims: Mapping[str, int]) -> None:
    """Raise UsageError for a size that none of the models has; it lists the names that there are."""
    if not dims:
        return
    names = list(dict.fromkeys(name for model in models for name in _names(model)))
    unknown = [name for name in dims if name not in names]
    if unknown:
        raise UsageError(
            f"--dim {unknown[0]}={dims[unknown[0]]}: no model has that dimension; there are "
            f"{', '.join(names) or 'none'}"
        )


def _names(model: Path) -> list[str]:
    """Names of the open sizes of a model's inputs, outputs and declared values."""
    graph = onnx.load(model, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    names = []
    for value in graph.input:
        shape = value.type.tensor_type.shape.dim if value.name not in stored else ()
        open_axes = [(axis, dim) for axis, dim in enumerate(shape) if not dim.HasField("dim_value")]
        names += [dim.dim_param or f"{value.name}:{axis}" for axis, dim in open_axes]
    for value in (*graph.value_info, *graph.output):
        names += [dim.dim_param for dim in value.type.tensor_type.shape.dim if dim.dim_param]
    return names
