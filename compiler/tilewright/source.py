"""What can be compiled: a file, the bytes of one, or a graph; each with the digest that caches know it by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tilewright.errors import ImportModelError, UsageError
from tilewright.graph.ir import Constant, Function, Module, Node, Placeholder, Value

if TYPE_CHECKING:
    from tilewright.frontend.signature import Signature


class Serialisable(Protocol):
    """A protobuf message: `onnx.ModelProto`, whose package is imported only when a model is read."""

    def SerializeToString(self) -> bytes: ...


Model = str | Path | bytes | Module | Serialisable

# The key of an entry that names a file of external data, as protobuf writes it, then the length of that name.
_EXTERNAL = re.compile(rb"\n\x08location\x12([\x01-\x7f])")


@dataclass(frozen=True)
class Source:
    """A model before it is read. digest: sha256 of its bytes, those of its external data included."""

    digest: str
    data: bytes | None = None
    path: Path | None = None
    module: Module | None = None

    @staticmethod
    def of(model: Model) -> Source:
        """Raises UsageError for a path that is no file and for what is no model, ImportModelError for a file
        that cannot be read, or a message that is too large.
        """
        if isinstance(model, Module):
            return Source(_module_digest(model), module=model)
        if isinstance(model, bytes):
            return Source(_digest(model, None), data=model)
        if hasattr(model, "SerializeToString"):
            return Source.of(_serialised(model))
        if not isinstance(model, str | Path):
            raise UsageError(
                f"a model is a path, bytes, a ModelProto or a graph from `tilewright.load`, not "
                f"{type(model).__name__}"
            )
        path = Path(model)
        if not path.is_file():
            raise UsageError(
                f"model '{model}' is not a file; zoo names are turned into files by the command line "
                f"(`tilewright compile {path.name}`)"
            )
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ImportModelError(f"model '{path}' cannot be read: {error.strerror}") from error
        return Source(_digest(data, path.parent), data=data, path=path)

    def read(self, dims: Mapping[str, int], values: Mapping[str, np.ndarray] | None = None) -> Module:
        """The graph, which the caller may change.

        dims, values: as of `onnx_reader.read_model`; a graph has its sizes already. Raises ImportModelError.
        """
        if self.module is not None:
            return copy_module(self.module)
        from tilewright.frontend.onnx_reader import read_bytes

        assert self.data is not None
        folder = None if self.path is None else self.path.parent
        with self._named():
            return read_bytes(self.data, folder, dims, values)

    def signature(self) -> Signature | None:
        """What the model takes and gives before sizes are bound; None for a graph, whose sizes are numbers.

        Raises ImportModelError.
        """
        if self.data is None:
            return None
        from tilewright.frontend.onnx_reader import read_signature

        with self._named():
            return read_signature(self.data)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors name the file, if there is one."""
        try:
            yield
        except ImportModelError as error:
            raise ImportModelError(f"model '{self.path}': {error}" if self.path else str(error)) from error


def _serialised(model: Serialisable) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError as error:  # protobuf writes no more than 2 GiB
        raise ImportModelError(
            f"the ModelProto cannot be written: {error}; save it with external data"
        ) from error


def _digest(data: bytes, folder: Path | None) -> str:
    """Files outside of the folder are left alone: the reader refuses models that name them."""
    total = sha256(data)
    for name in sorted(_external_files(data)) if folder is not None else ():
        assert folder is not None
        file = _within(folder, name)
        if file is not None:
            total.update(name.encode())
            with file.open("rb") as handle:
                while block := handle.read(1 << 20):
                    total.update(block)
    return total.hexdigest()


def _within(folder: Path, name: str) -> Path | None:
    """The file of a name, if there is one and it is in the folder."""
    try:
        file = (folder / name).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or bytes that no name may have
        return None
    return file if file.is_relative_to(folder.resolve()) and file.is_file() else None


def _external_files(data: bytes) -> set[str]:
    """Names of files that the model refers to, found without parsing it; a name too many does no harm."""
    found = set()
    for match in _EXTERNAL.finditer(data):
        name = data[match.end() : match.end() + match.group(1)[0]]
        try:
            found.add(name.decode())
        except UnicodeDecodeError:
            continue  # not a name: other bytes that happen to look like an entry
    return found


def _module_digest(module: Module) -> str:
    from tilewright.graph.text import print_module

    return sha256(print_module(module).encode()).hexdigest()


def copy_module(module: Module) -> Module:
    """Functions, nodes and values anew; the arrays of constants, which nobody writes, are shared."""
    functions = {name: copy_function(function, {}) for name, function in module.functions.items()}
    return Module(functions, module.main)


def copy_function(function: Function, known: dict[Value, Value]) -> Function:
    """A copy with values of its own.

    known: copies of values from outside, extended by those of the function.
    """

    def copied(value: Value) -> Value:
        if value not in known:
            assert isinstance(value, Constant), f"value '{value.name}' is used before it is produced"
            known[value] = replace(value)
        return known[value]

    result = Function(function.name, output_names=list(function.output_names))
    result._counter.update(function._counter)
    for placeholder in function.inputs:
        result.inputs.append(Placeholder(placeholder.name, placeholder.type))
        known[placeholder] = result.inputs[-1]
    for node in function.nodes:
        inputs = [None if value is None else copied(value) for value in node.inputs]
        bodies = tuple(copy_function(body, known) for body in node.bodies)
        new = Node(node.op, node.name, inputs, _attributes(node), [], bodies, node.origin)
        for value in node.outputs:
            known[value] = Value(value.name, value.type, new, value.index)
            new.outputs.append(known[value])
        result.nodes.append(new)
    result.outputs = [copied(value) for value in function.outputs]
    return result


def _attributes(node: Node) -> dict[str, object]:
    return {key: v.copy() if isinstance(v, np.ndarray) else v for key, v in node.attrs.items()}
