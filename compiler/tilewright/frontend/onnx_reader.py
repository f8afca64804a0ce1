"""ONNX files to graphs. Nothing behind this room knows what ONNX is.

The model is read in three steps: list everything that is not supported, bind the sizes of the inputs,
translate the nodes in topological order. Whatever the bytes are, the only error is ImportModelError.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto

from tilewright.errors import ImportModelError, VerifyError
from tilewright.frontend.importing import GraphReader
from tilewright.frontend.names import check_text
from tilewright.frontend.signature import check_output, input_type
from tilewright.frontend.support import check_supported, opset_of
from tilewright.graph.ir import Function, Module

_LARGEST = 1 << 31  # protobuf's own limit, in bytes


def read_model(path: Path, dims: Mapping[str, int] | None = None) -> Module:
    """The graph of an ONNX file.

    dims: sizes of named dimensions by name, of unnamed ones as `input:axis`; names that the model does not
    have are ignored, because one command may read several models. External data is read from the file's
    folder only. Raises ImportModelError.
    """
    path = Path(path)
    try:
        # The file's bytes are dropped before the weights become arrays.
        return _module(_parsed(_content(path)), path.parent, dims or {})
    except ImportModelError as error:
        raise ImportModelError(f"model '{path}': {error}") from error


def read_bytes(data: bytes, base_dir: Path | None = None, dims: Mapping[str, int] | None = None) -> Module:
    """The graph of a serialised model; base_dir: the folder of external data. Raises ImportModelError."""
    return _module(_parsed(data), base_dir, dims or {})


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


def _module(model: ModelProto, base_dir: Path | None, dims: Mapping[str, int]) -> Module:
    try:
        return _read(model, base_dir, dims)
    except VerifyError as error:
        raise ImportModelError(str(error)) from error
    except MemoryError as error:
        raise ImportModelError("the model needs more memory than there is") from error


def _read(model: ModelProto, base_dir: Path | None, dims: Mapping[str, int]) -> Module:
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ImportModelError("the file is not an ONNX model: it holds no graph")
    check_text(model)
    graph = model.graph
    opset = opset_of(model)
    check_supported(graph, opset)
    if graph.sparse_initializer:
        raise ImportModelError("sparse initializers are not supported; store the model with dense ones")
    if not graph.output:
        raise ImportModelError("the model has no outputs")
    function = _inputs(graph, dims)
    reader = GraphReader(function, graph, opset, base_dir)
    reader.read_nodes()
    for info in graph.output:
        value = reader.output(info.name)
        check_output(info, value.type, _bound(graph, dims))
    return Module({function.name: function}, function.name)


def _inputs(graph: GraphProto, dims: Mapping[str, int]) -> Function:
    """The function with its placeholders. Inputs with an initializer are constants: older files list both."""
    function = Function("main")
    initialised = {tensor.name for tensor in graph.initializer}
    problems: list[str] = []
    seen: set[str] = set()
    for info in graph.input:
        if info.name in initialised:
            continue
        if not info.name or info.name in seen:
            raise ImportModelError(f"input '{info.name}' has no name or is declared twice")
        seen.add(info.name)
        try:
            function.add_input(info.name, input_type(info, dims))
        except ImportModelError as error:
            problems.append(str(error))
    if problems:
        raise ImportModelError("; ".join(problems))
    return function


def _bound(graph: GraphProto, dims: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the named dimensions that inputs use; a name that only outputs have says nothing."""
    used = {dim.dim_param for info in graph.input for dim in info.type.tensor_type.shape.dim if dim.dim_param}
    return {name: size for name, size in dims.items() if name in used}
