"""How a file of `ops/` declares an operator: checks that every type rule shares, and declared defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Node
from tilewright.loops.ir import Kernel
from tilewright.ops.bounded import bounded_results
from tilewright.ops.operator import (
    REGISTRY,
    Attr,
    Attrs,
    Compute,
    Evaluate,
    Fusion,
    Infer,
    Loops,
    Lower,
    Operand,
    Operator,
    declare,
)
from tilewright.tensor.ir import Tensor
from tilewright.types import TensorType

T = TypeVar("T")
FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SIGNED = (*FLOATS, "i8", "i16", "i32", "i64")
NUMBERS = (*FLOATS, *INTEGERS)


def operator(
    name: str,
    doc: str,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    infer: Infer,
    evaluate: Evaluate,
    attrs: Mapping[str, Attr] | None = None,
    fusion: Fusion = Fusion.OPAQUE,
    lower: Lower | None = None,
    compute: Compute | None = None,
    loops: Loops | None = None,
) -> Operator:
    """Declare an operator whose type rule sees checked operands and whose rules all see attribute defaults.

    Checked for every operator: number of operands, required operands, element types, required attributes.
    """
    declared = dict(attrs or {})
    operands = tuple(inputs)

    def checked_infer(types: Sequence[TensorType | None], given: Attrs) -> tuple[TensorType, ...]:
        _check_operands(name, operands, types)
        full = _with_defaults(declared, given)
        missing = [key for key, attr in declared.items() if attr.required and full.get(key) is None]
        if missing:
            raise VerifyError(f"{name}: attribute '{missing[0]}' is required")
        results = infer(_padded(operands, [None if t is None else t.at_bound() for t in types]), full)
        if name == "Cut" or any(t is not None and t.is_bounded for t in (*types, *results)):
            return bounded_results(name, fusion, types, full, results)
        return results

    def full_evaluate(arrays: Sequence[np.ndarray | None], given: Attrs) -> tuple[np.ndarray, ...]:
        return evaluate(_padded(operands, arrays), _with_defaults(declared, given))

    def full_compute(
        tensors: Sequence[Tensor | None], given: Attrs, types: Sequence[TensorType]
    ) -> tuple[Tensor, ...]:
        assert compute is not None
        return compute(_padded(operands, tensors), _with_defaults(declared, given), types)

    def full_loops(types: Sequence[TensorType | None], given: Attrs, results: Sequence[TensorType]) -> Kernel:
        assert loops is not None
        return loops(_padded(operands, types), _with_defaults(declared, given), results)

    return declare(
        Operator(
            name=name,
            doc=doc,
            inputs=operands,
            outputs=tuple(outputs),
            infer=checked_infer,
            evaluate=full_evaluate,
            attrs=declared,
            fusion=fusion,
            lower=lower,
            compute=full_compute if compute is not None else None,
            loops=full_loops if loops is not None else None,
        )
    )


def attributes(node: Node) -> Attrs:
    """A node's attributes together with the declared defaults of those it lacks."""
    return _with_defaults(REGISTRY[node.op].attrs, node.attrs)


def required(values: Sequence[T | None], index: int) -> T:
    """An operand that the declaration requires."""
    value = values[index]
    assert value is not None
    return value


def present(values: Sequence[T | None]) -> list[T]:
    """The operands that are not omitted."""
    return [value for value in values if value is not None]


def same_dtype(name: str, types: Sequence[TensorType | None]) -> None:
    """All operands have one element type. Raises VerifyError naming both."""
    found = present(types)
    for type in found[1:]:
        if type.dtype != found[0].dtype:
            raise VerifyError(f"{name}: operands have element types {found[0].dtype} and {type.dtype}")


def broadcast_shape(name: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape under NumPy's broadcasting. Raises VerifyError naming the shapes."""
    rank = max(map(len, shapes))
    result = []
    for position in range(rank):
        extents = {s[position - rank + len(s)] for s in shapes if position - rank + len(s) >= 0} - {1}
        if len(extents) > 1:
            raise VerifyError(f"{name}: shapes {' and '.join(map(_text, shapes))} do not broadcast")
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which values are accumulated: float32 for the half types, otherwise the type itself."""
    return np.dtype(np.float32) if dtype.name in ("float16", "bfloat16") else dtype


def _text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _with_defaults(declared: Mapping[str, Attr], given: Attrs) -> Attrs:
    return {key: attr.default for key, attr in declared.items()} | dict(given)


def _padded(operands: tuple[Operand, ...], values: Sequence[T | None]) -> list[T | None]:
    return [*values, *(None for _ in operands[len(values) :])]


def _check_operands(name: str, operands: tuple[Operand, ...], types: Sequence[TensorType | None]) -> None:
    variadic = bool(operands) and operands[-1].variadic
    if len(types) > len(operands) and not variadic:
        raise VerifyError(f"{name}: takes {len(operands)} operands, {len(types)} are given")
    if variadic and len(types) < len(operands):
        raise VerifyError(f"{name}: needs at least {len(operands)} operands, {len(types)} are given")
    for index in range(max(len(types), len(operands))):
        operand = operands[min(index, len(operands) - 1)]
        type = types[index] if index < len(types) else None
        if type is None and not operand.optional:
            raise VerifyError(f"{name}: operand '{operand.name}' is missing")
        if type is not None and operand.types and type.dtype.name not in operand.types:
            allowed = ", ".join(operand.types)
            raise VerifyError(
                f"{name}: operand '{operand.name}' has element type {type.dtype}, expected one of {allowed}"
            )
