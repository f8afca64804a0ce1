"""The model's declared inputs and outputs: binding named dimensions, checking what was computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, TypeProto, ValueInfoProto

from tilewright.dtypes import DType
from tilewright.errors import ImportModelError
from tilewright.frontend.shape_operands import bindable_inputs
from tilewright.frontend.tensors import element_type, type_name
from tilewright.types import Bounded, TensorType

Dims = Mapping[str, int]


@dataclass(frozen=True)
class DeclaredTensor:
    """An input or output as the model declares it.

    shape: a number, or the name by which `--dim` binds the size: the model's own, or `input:axis`; None when
    the model declares no shape. dtype: None when it declares no type.
    """

    name: str
    dtype: DType | None
    shape: tuple[int | str, ...] | None

    def bound(self, dims: Dims) -> tuple[int | str, ...] | None:
        """The shape with the sizes of `dims`. Raises ImportModelError for a negative size."""
        if self.shape is None:
            return None
        return tuple(
            _positive(extent, dims[extent]) if isinstance(extent, str) and extent in dims else extent
            for extent in self.shape
        )


@dataclass(frozen=True)
class Signature:
    """What a model takes and gives before sizes are bound.

    by_value: inputs that feed shape operands only, whose values must be known before kernels are made;
    also_by_value: inputs that must be known for shape operands, and are data as well;
    dims: names of all sizes that the model leaves open, those of inputs first.
    """

    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    by_value: frozenset[str]
    also_by_value: frozenset[str]
    dims: tuple[str, ...]

    @property
    def needs_values(self) -> frozenset[str]:
        """Inputs whose values must be known before kernels are made."""
        return self.by_value | self.also_by_value

    def unbound_dims(self, dims: Dims) -> list[str]:
        """Names of sizes that neither the model nor `dims` gives."""
        shapes = (tensor.bound(dims) or () for tensor in self.inputs if tensor.name not in self.by_value)
        return list(dict.fromkeys(extent for shape in shapes for extent in shape if isinstance(extent, str)))


def signature_of(graph: GraphProto) -> Signature:
    """The declared inputs, those with an initializer left out, and outputs. Raises ImportModelError."""
    inputs = tuple(declared_input(info) for info in graph_inputs(graph))
    outputs = tuple(_declared_output(info) for info in graph.output)
    bindable = bindable_inputs(graph)
    return Signature(inputs, outputs, bindable.only, bindable.also, _size_names(graph, inputs))


def _size_names(graph: GraphProto, inputs: Sequence[DeclaredTensor]) -> tuple[str, ...]:
    """Names of open sizes: of inputs also `input:axis`, of other values only those that the model gives."""
    names = [extent for tensor in inputs for extent in tensor.shape or () if isinstance(extent, str)]
    others = (info.type.tensor_type.shape.dim for info in (*graph.value_info, *graph.output))
    names += [dim.dim_param for shape in others for dim in shape if dim.dim_param]
    return tuple(dict.fromkeys(names))


def graph_inputs(graph: GraphProto) -> Iterable[ValueInfoProto]:
    """Inputs without an initializer; older files list constants as inputs too. Raises ImportModelError."""
    initialised = {tensor.name for tensor in graph.initializer}
    seen: set[str] = set()
    for info in graph.input:
        if info.name in initialised:
            continue
        if not info.name or info.name in seen:
            raise ImportModelError(f"input '{info.name}' has no name or is declared twice")
        seen.add(info.name)
        yield info


def declared_input(info: ValueInfoProto) -> DeclaredTensor:
    """Raises ImportModelError for an input that is no tensor, or of a type or rank that is not known."""
    tensor = _tensor_type(info, "input")
    if not tensor.HasField("shape"):
        raise ImportModelError(f"input '{info.name}' has no declared shape; add one to the model")
    dtype = element_type(tensor.elem_type)
    if dtype is None:
        raise ImportModelError(
            f"input '{info.name}' has element type {type_name(tensor.elem_type)}, which is not supported"
        )
    return DeclaredTensor(info.name, dtype, _shape(info.name, tensor))


def _declared_output(info: ValueInfoProto) -> DeclaredTensor:
    if not info.HasField("type"):
        return DeclaredTensor(info.name, None, None)
    tensor = _tensor_type(info, "output")
    shape = _shape(info.name, tensor) if tensor.HasField("shape") else None
    return DeclaredTensor(info.name, element_type(tensor.elem_type), shape)


def _shape(name: str, tensor: TypeProto.Tensor) -> tuple[int | str, ...]:
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else dim.dim_param or f"{name}:{axis}"
        for axis, dim in enumerate(tensor.shape.dim)
    )


def input_type(info: ValueInfoProto, dims: Dims) -> TensorType:
    """The type of a model input with every dimension a number.

    A named dimension is looked up in `dims` by its name, an unnamed one as `input:axis`. Raises
    ImportModelError that lists all dimensions of this input that have no value.
    """
    declared = declared_input(info)
    shape = declared.bound(dims)
    assert shape is not None
    assert declared.dtype is not None
    missing = [
        f"axis {axis} is {'unnamed' if extent == f'{info.name}:{axis}' else f'named {extent}'}, "
        f"give --dim {extent}=NUMBER, in Python dims={{{extent!r}: NUMBER}}"
        for axis, extent in enumerate(shape)
        if isinstance(extent, str)
    ]
    if missing:
        raise ImportModelError(f"input '{info.name}' has dimensions without a value: {'; '.join(missing)}")
    return TensorType(declared.dtype, tuple(extent for extent in shape if isinstance(extent, int)))


def check_values(values: Sequence[str], signature: Signature) -> None:
    """Raise ImportModelError unless every name is an input on which shape operands depend."""
    wrong = [name for name in values if name not in signature.needs_values]
    if wrong:
        raise ImportModelError(
            f"input '{wrong[0]}' cannot be bound by value: it is no input, or no shape operand depends on it"
        )


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
    if not same_rank or not all(map(_may_be, declared, found.shape)):
        text = ",".join("?" if extent is None else str(extent) for extent in declared)
        raise ImportModelError(
            f"output '{info.name}' is declared with shape [{text}], the model computes {found}; "
            "correct the declaration"
        )


def _may_be(declared: int | None, found: int) -> bool:
    """Whether a computed extent agrees with the declared one; a size that depends on data may be smaller."""
    if declared is None:
        return True
    return declared <= int(found) if isinstance(found, Bounded) else declared == found


def _tensor_type(info: ValueInfoProto, role: str) -> TypeProto.Tensor:
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value") or "nothing"
        raise ImportModelError(f"{role} '{info.name}' is declared as {kind}; only tensors are supported")
    return info.type.tensor_type


def _positive(key: str, value: int) -> int:
    if value < 0:
        raise ImportModelError(f"dimension {key}={value}: a size cannot be negative")
    return value
