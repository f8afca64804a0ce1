"""From what the user wrote to a model file: a zoo name or a path."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tilewright.errors import ImportModelError, UsageError
from tilewright_bench.engines.base import bound_shape
from tilewright_datasets import zoo


@dataclass(frozen=True)
class ModelFile:
    """A model as the user named it, and the file behind it. `batch` where a batch size was asked for."""

    name: str
    path: Path
    batch: int | None = None

    @property
    def sha256(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def suite_names(suite: str) -> list[str]:
    """The zoo names of a suite. Raises UsageError that lists the suites when there is none of that name."""
    return zoo.suite(suite)


def find_model(name: str) -> ModelFile:
    """The model of that zoo name or path. Raises UsageError with the nearest zoo name, or all, when it is
    neither.
    """
    path = Path(name)
    if path.is_file():
        return ModelFile(name, path)
    found = zoo.model_path(name)
    if found is None:
        near = get_close_matches(name, zoo.model_names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"the zoo has {', '.join(zoo.model_names())}"
        raise UsageError(f"no model '{name}': neither a file nor a zoo name; {hint}")
    return ModelFile(name, found)


def check_model(model: ModelFile, dims: Mapping[str, int]) -> None:
    """Refuse, before an engine is started, a file that is no ONNX model or whose inputs have no fixed shape.

    Raises ImportModelError for the file, UsageError for dimensions without a value.
    """
    try:
        graph = onnx.load(model.path, load_external_data=False).graph
    except (DecodeError, OSError) as error:
        raise ImportModelError(
            f"{model.path} is not an ONNX model, or only a part of one: {error}"
        ) from error
    if not graph.output:
        raise ImportModelError(f"{model.path} is not an ONNX model: it has no outputs")
    stored = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name not in stored:
            shape = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
            bound_shape(shape, dims, f"{model.name}: input '{value.name}'")
