"""The model's declared inputs and outputs: binding named dimensions, checking what was computed."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TypeProto, ValueInfoProto

from tilewright.errors import ImportModelError
from tilewright.frontend.tensors import element_type, type_name
from tilewright.types import TensorType

Dims = Mapping[str, int]


def input_type(info: ValueInfoProto, dims: Dims) -> TensorType:
    """The type of a model input with every dimension a number.

    A named dimension is looked up in `dims` by its name, an unnamed one as `input:axis`. Raises
    ImportModelError that lists all dimensions of this input that have no value.
    """
    tensor = _tensor_type(info, "input")
    if not tensor.HasField("shape"):
        raise ImportModelError(f"input '{info.name}' has no declared shape; add one to the model")
    dtype = element_type(tensor.elem_type)
    if dtype is None:
        raise ImportModelError(
            f"input '{info.name}' has element type {type_name(tensor.elem_type)}, which is not supported"
        )
    shape: list[int] = []
    missing: list[str] = []
    for axis, dim in enumerate(tensor.shape.dim):
        key = dim.dim_param or f"{info.name}:{axis}"
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(dim.dim_value)
        elif key in dims:
            shape.append(_positive(key, dims[key]))
        else:
            missing.append(
                f"axis {axis} is {f'named {key}' if dim.dim_param else 'unnamed'}, give --dim {key}=N"
            )
    if missing:
        raise ImportModelError(f"input '{info.name}' has dimensions without a value: {'; '.join(missing)}")
    return TensorType(dtype, tuple(shape))


def check_output(info: ValueInfoProto, found: TensorType, dims: Dims) -> None:
    """Compare a declared output with the computed type. Raises ImportModelError."""
    if not info.HasField("type"):
        return
    tensor = _tensor_type(info, "output")
    if tensor.elem_type and element_type(tensor.elem_type) != found.dtype:
        raise ImportModelError(
            f"output '{info.name}' is declared as {type_name(tensor.elem_type)}, the model computes {found}"
        )
    if not tensor.HasField("shape"):
        return
    declared = [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dims.get(dim.dim_param)
        for dim in tensor.shape.dim
    ]
    same_rank = len(declared) == found.rank
    if not same_rank or any(d not in (None, f) for d, f in zip(declared, found.shape, strict=True)):
        text = ",".join("?" if extent is None else str(extent) for extent in declared)
        raise ImportModelError(
            f"output '{info.name}' is declared with shape [{text}], the model computes {found}; "
            "correct the declaration"
        )


def _tensor_type(info: ValueInfoProto, role: str) -> TypeProto.Tensor:
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value") or "nothing"
        raise ImportModelError(f"{role} '{info.name}' is declared as {kind}; only tensors are supported")
    return info.type.tensor_type


def _positive(key: str, value: int) -> int:
    if value < 0:
        raise ImportModelError(f"dimension {key}={value}: a size cannot be negative")
    return value
