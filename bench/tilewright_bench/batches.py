"""Models at other batch sizes, for throughput: the same file with another leading dimension."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx
from onnx import shape_inference

from tilewright.errors import UsageError
from tilewright_bench.models import ModelFile


def loads(
    models: Sequence[ModelFile], batches: Sequence[int], concurrency: int, folder: Path
) -> list[ModelFile]:
    """Every model at every batch size, written below `folder`, under names that say what is asked of it, like
    `resnet18[batch=8]`; the models themselves where nothing is.

    Raises UsageError that names a model whose batch cannot be changed.
    """
    if batches:
        models = [_at(model, batch, folder) for model in models for batch in batches]
    if concurrency == 1:
        return [*models]
    return [replace(model, name=f"{model.name}[concurrency={concurrency}]") for model in models]


def _at(model: ModelFile, batch: int, folder: Path) -> ModelFile:
    changed = rebatched(onnx.load(model.path), batch, model.name)
    path = folder / f"{Path(model.name).stem}-batch{batch}.onnx"
    onnx.save(changed, path)
    return ModelFile(f"{model.name}[batch={batch}]", path, batch)


def rebatched(model: onnx.ModelProto, batch: int, name: str) -> onnx.ModelProto:
    """The model with `batch` as the first dimension of all inputs and outputs; it must be 1 or free before.

    What stands in between follows from the inputs, unless the model holds its batch in a constant (the target
    of a Reshape, say): then shape inference contradicts the outputs, and the model is refused. Raises
    UsageError.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    values = [*(v for v in model.graph.input if v.name not in stored), *model.graph.output]
    for value in values:
        dims = value.type.tensor_type.shape.dim
        if not dims or dims[0].dim_value not in (0, 1):
            found = f"starts with {dims[0].dim_value}" if dims else "is a scalar"
            raise UsageError(f"--batch: {name}: the shape of '{value.name}' {found}, which is no batch of 1")
        dims[0].ClearField("dim_param")
        dims[0].dim_value = batch
    del model.graph.value_info[:]
    try:
        shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(f"--batch: {name} cannot run at batch {batch}: {reason}") from error
    return model
