"""Checks a function against the operators' declarations; run between passes and in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Node
from tilewright.graph.verify import verify
from tilewright.ops import all as _declarations  # noqa: F401  (fills the registry)
from tilewright.ops.control import infer_node
from tilewright.ops.operator import operator_of
from tilewright.storage import Storage
from tilewright.types import TensorType


def verify_function(function: Function) -> None:
    """Check a function and the bodies of its nodes: structure, attributes and types.

    Raises VerifyError that names the function, the node and what was expected.
    """
    verify(function, _checked_types)


def _checked_types(node: Node) -> tuple[TensorType, ...]:
    declared = operator_of(node).attrs
    for key, value in node.attrs.items():
        if key not in declared:
            raise VerifyError(f"attribute '{key}' is not declared; known: {', '.join(declared) or 'none'}")
        kind = declared[key].kind
        if not _KINDS[kind](value):
            raise VerifyError(f"attribute '{key}' is {value!r}, expected {kind}")
    return infer_node(node)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or _is_int(value)


def _all(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple | list) and all(map(check, value))


_KINDS: dict[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "float": _is_float,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "ints": _all(_is_int),
    "floats": _all(_is_float),
    "dtype": lambda value: isinstance(value, DType),
    "storage": lambda value: isinstance(value, Storage),
    "array": lambda value: isinstance(value, np.ndarray),
}
