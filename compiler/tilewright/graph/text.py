"""Prints the graph IR as text. The grammar is in docs/graph.md; `parse.py` reads it back.

Small constants print in place; larger ones print as the sha256 of their memory and live in a sidecar: next to
`net.tw.txt` stands `net.tw.npz`, an array of bytes for each digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, DType
from tilewright.errors import VerifyError
from tilewright.files import naming
from tilewright.graph.ir import Constant, Function, Module, Node
from tilewright.storage import Storage
from tilewright.types import Bounded, TensorType

INLINE = 16  # elements
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


def print_module(module: Module) -> str:
    """The text of a module. The entry is named when it is not `main`."""
    head = [] if module.main == "main" else [f"entry @{quoted(module.main)}\n"]
    return "\n".join([*head, *(print_function(function) for function in module.functions.values())])


def print_function(function: Function, indent: str = "") -> str:
    """The text of a function, ending in a newline."""
    parameters = ", ".join(f"%{quoted(value.name)}: {value.type}" for value in function.inputs)
    names: Sequence[str | None] = function.output_names or [None] * len(function.outputs)
    results = ", ".join(
        f"%{quoted(value.name)}" + ("" if name is None else f" as {json.dumps(name)}")
        for value, name in zip(function.outputs, names, strict=True)
    )
    inner = indent + "  "
    lines = [f"{indent}func @{quoted(function.name)}({parameters}) -> ({results}) {{"]
    lines += [inner + _constant(value) for value in function.constants()]
    lines += [_node(node, inner) for node in function.nodes]
    return "\n".join([*lines, indent + "}"]) + "\n"


def same(a: Function, b: Function) -> bool:
    """Whether two functions are structurally equal: names, types, nodes, attributes, constants by content."""
    return print_function(a) == print_function(b)


def write_text(module: Module, path: Path) -> None:
    """Write `X.tw.txt` and, for large constants, its sidecar `X.tw.npz`; each is complete or absent."""
    large = {
        digest(value.data): _bytes(value.data) for value in _all_constants(module) if literal(value) is None
    }
    if large:
        _replace(sidecar(path), lambda file: np.savez(file, **large))  # type: ignore[arg-type]
    text = print_module(module).encode()
    _replace(path, lambda file: file.write(text))


def sidecar(path: Path) -> Path:
    """Where the large constants of a text file live."""
    return path.with_suffix(".npz")


def digest(data: np.ndarray) -> str:
    """sha256 of an array's memory, in hexadecimal."""
    return hashlib.sha256(_bytes(data).data).hexdigest()


def quoted(name: str) -> str:
    """A name as it is, or in quotes when it is no plain identifier."""
    return name if _PLAIN_NAME.match(name) else json.dumps(name)


def literal(value: Constant) -> str | None:
    """The elements of a small constant in memory order; None when it is large or the text would lose bits."""
    data = value.data
    if data.size > INLINE or value.dtype.is_code:
        return None
    text = f"[{', '.join(_element(element, value.dtype) for element in data.reshape(-1))}]"
    exact = value.dtype.is_float and np.isnan(data.astype(np.float64)).any()
    if exact and not np.array_equal(_bytes(data), _bytes(_standard_nans(data))):
        return None
    return text


def _standard_nans(data: np.ndarray) -> np.ndarray:
    """The same numbers with the NaN that the parser creates."""
    return np.where(np.isnan(data.astype(np.float64)), np.array(np.nan, data.dtype), data).astype(data.dtype)


def _element(element: Any, dtype: DType) -> str:
    if dtype == BOOL:
        return "true" if element else "false"
    return _float(element) if dtype.is_float else str(int(element))


def _float(number: Any) -> str:
    """The shortest decimal that reads back to the same value in the number's own type."""
    text = str(number)
    return text if any(mark in text for mark in ".en") else text + ".0"


def _constant(value: Constant) -> str:
    data = literal(value) or f"sha256:{digest(value.data)}"
    return f"const %{quoted(value.name)}: {value.type} = {data}"


def _node(node: Node, indent: str) -> str:
    results = ", ".join(f"%{quoted(value.name)}: {value.type}" for value in node.outputs)
    operands = ", ".join("_" if value is None else f"%{quoted(value.name)}" for value in node.inputs)
    text = f"{indent}{results} = {node.op}({operands})"
    if node.attrs:
        text += f" {{{', '.join(f'{key}={_attribute(value, key)}' for key, value in node.attrs.items())}}}"
    text += f" @{quoted(node.name)}"
    if node.origin:
        text += f" from [{', '.join(json.dumps(name) for name in node.origin)}]"
    if node.bodies:
        text += (
            " bodies {\n"
            + "".join(print_function(body, indent + "  ") for body in node.bodies)
            + indent
            + "}"
        )
    return text


def _attribute(value: Any, key: str) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Bounded):
        return str(value)
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return _float(float(value))
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Storage):
        return f"storage({value})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_attribute(part, key) for part in value)}]"
    if isinstance(value, np.ndarray):
        dtype = DType.of(value.dtype)
        elements = ", ".join(_element(element, dtype) for element in value.reshape(-1))
        return f"{TensorType(dtype, value.shape)} [{elements}]"
    raise VerifyError(f"attribute '{key}' of type {type(value).__name__} has no text form")


def _bytes(data: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(data).reshape(-1)
    return flat.view(np.uint8) if flat.size else np.zeros(0, np.uint8)


def _all_constants(module: Module) -> Iterable[Constant]:
    pending = list(module.functions.values())
    while pending:
        function = pending.pop()
        yield from function.constants()
        pending += [body for node in function.nodes for body in node.bodies]


def _replace(path: Path, write: Any) -> None:
    with naming(path), ExitStack() as undo:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        undo.callback(Path(name).unlink, missing_ok=True)  # there only if it was not renamed
        with os.fdopen(descriptor, "wb") as file:
            write(file)
        os.replace(name, path)
