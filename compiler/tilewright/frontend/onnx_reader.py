"""ONNX files to graphs. Nothing behind this room knows what ONNX is.

The model is read in three steps: list everything that is not supported, bind the sizes of the inputs,
translate the nodes in topological order. Whatever the bytes are, the only error is ImportModelError.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto

from tilewright.errors import ImportModelError, VerifyError
from tilewright.frontend.importing import GraphReader
from tilewright.frontend.names import check_text
from tilewright.frontend.signature import (
    Signature,
    check_output,
    check_values,
    graph_inputs,
    input_type,
    signature_of,
)
from tilewright.frontend.site import KnownInput
from tilewright.frontend.support import check_supported, opset_of
from tilewright.graph.ir import Function, Module

_LARGEST = 1 << 31  # protobuf's own limit, in bytes


def read_model(
    path: Path, dims: Mapping[str, int] | None = None, values: Mapping[str, np.ndarray] | None = None
) -> Module:
    """The graph of an ONNX file.

    dims: sizes of named dimensions by name, of unnamed ones as `input:axis`; names that the model does not
    have are ignored, because one command may read several models. values: arrays for inputs on which shape
    operands depend (`read_signature` tells which); those that are data as well stay inputs. External data is
    read from the file's folder only. Raises ImportModelError.
    """
    path = Path(path)
    try:
        # The file's bytes are dropped before the weights become arrays.
        return _module(_parsed(_content(path)), path.parent, dims or {}, values or {})
    except ImportModelError as error:
        raise ImportModelError(f"model '{path}': {error}") from error


def read_bytes(
    data: bytes,
    base_dir: Path | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
) -> Module:
    """The graph of a serialised model; base_dir: the folder of external data; others as of `read_model`.

    Raises ImportModelError.
    """
    return _module(_parsed(data), base_dir, dims or {}, values or {})


def read_signature(data: bytes) -> Signature:
    """What a serialised model takes and gives, before any size is bound.

    Raises ImportModelError also for what is not supported, so that it is known before the first call.
    """
    model = _parsed(data)
    _check_model(model)
    return signature_of(model.graph)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ImportModelError(f"it cannot be read: {error.strerror}") from error


def _parsed(data: bytes) -> ModelProto:
    if not data:
        raise ImportModelError("the file is empty")
    if len(data) >= _LARGEST:
        raise ImportModelError(
            "the file is larger than the 2 GiB that ONNX allows; keep weights in external data"
        )
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ImportModelError("the file is truncated or not an ONNX model") from error
    return model


def _module(
    model: ModelProto, base_dir: Path | None, dims: Mapping[str, int], values: Mapping[str, np.ndarray]
) -> Module:
    try:
        return _read(model, base_dir, dims, values)
    except VerifyError as error:
        raise ImportModelError(str(error)) from error
    except MemoryError as error:
        raise ImportModelError("the model needs more memory than there is") from error


def _check_model(model: ModelProto) -> int:
    """The opset of a model whose graph can be read. Raises ImportModelError."""
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ImportModelError("the file is not an ONNX model: it holds no graph")
    check_text(model)
    opset = opset_of(model)
    check_supported(model.graph, opset)
    if model.graph.sparse_initializer:
        raise ImportModelError("sparse initializers are not supported; store the model with dense ones")
    if not model.graph.output:
        raise ImportModelError("the model has no outputs")
    return opset


def _read(
    model: ModelProto, base_dir: Path | None, dims: Mapping[str, int], values: Mapping[str, np.ndarray]
) -> Module:
    opset = _check_model(model)
    graph = model.graph
    constants: dict[str, np.ndarray] = {}
    if values:
        signature = signature_of(graph)
        check_values(list(values), signature)
        constants = {name: array for name, array in values.items() if name in signature.by_value}
    function = _inputs(graph, dims, values, constants)
    reader = GraphReader(function, graph, opset, base_dir, dims)
    for name, array in constants.items():
        reader.bind(name, array)
    reader.read_nodes()
    for info in graph.output:
        value = reader.output(info.name)
        check_output(info, value.type, _bound(graph, dims))
    return Module({function.name: function}, function.name)


def _inputs(
    graph: GraphProto,
    dims: Mapping[str, int],
    values: Mapping[str, np.ndarray],
    constants: Mapping[str, object],
) -> Function:
    """The function with its placeholders. constants: inputs that become none."""
    function = Function("main")
    problems: list[str] = []
    for info in graph_inputs(graph):
        if info.name in constants:
            continue
        try:
            placeholder = function.add_input(info.name, input_type(info, dims))
        except ImportModelError as error:
            problems.append(str(error))
            continue
        if info.name in values:
            function.inputs[-1] = KnownInput(placeholder.name, placeholder.type, data=values[info.name])
    if problems:
        raise ImportModelError("; ".join(problems))
    return function


def _bound(graph: GraphProto, dims: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the named dimensions that inputs use; a name that only outputs have says nothing."""
    used = {dim.dim_param for info in graph.input for dim in info.type.tensor_type.shape.dim if dim.dim_param}
    return {name: size for name, size in dims.items() if name in used}
