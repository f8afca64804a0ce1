"""Running a graph with NumPy: the reference meaning of a whole function, in its own types or in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tilewright.ops.all  # noqa: F401  fills the registry
from tilewright.dtypes import BF16, DType
from tilewright.errors import RunError, TilewrightError
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.bounded import true_attributes
from tilewright.ops.control import LOOP_OPERANDS, body_of, leading_results, scan_length
from tilewright.ops.declaration import attributes
from tilewright.ops.operator import Attrs, operator_of
from tilewright.storage import PLAIN

Hook = Callable[[Node, Sequence[np.ndarray]], None]


def evaluate_function(
    function: Function,
    inputs: Mapping[str, np.ndarray],
    dtype: np.dtype[Any] | None = None,
    hook: Hook | None = None,
) -> dict[str, np.ndarray]:
    """Results by output name, as fresh plain arrays.

    inputs: one plain array for every input of the function, by name.
    dtype: a floating type in which all floating values are computed; None keeps the types of the graph.
    hook: called with each node and its results as soon as they are known, nodes of bodies included.
    Raises RunError for missing, unknown or ill-typed inputs, and for data that an operator refuses.
    """
    run = _Run(None if dtype is None else np.dtype(dtype), hook)
    arrays = run.function(function, _checked_inputs(function, inputs, run.dtype))
    names = function.output_names or [value.name for value in function.outputs]
    return {name: np.array(array) for name, array in zip(names, arrays, strict=True)}


def _checked_inputs(
    function: Function, inputs: Mapping[str, np.ndarray], dtype: np.dtype[Any] | None
) -> list[np.ndarray]:
    wanted = [value.name for value in function.inputs]
    wrong = [*(n for n in wanted if n not in inputs), *(n for n in inputs if n not in wanted)]
    if wrong:
        raise RunError(f"input '{wrong[0]}' is missing or unknown; {function.name} takes {', '.join(wanted)}")
    arrays = []
    for value in function.inputs:
        array = np.asarray(inputs[value.name])
        floats = dtype is not None and value.dtype.is_float and _is_float(array)
        if array.shape != value.shape or not (floats or array.dtype == value.dtype.numpy):
            found = f"{array.dtype}{list(array.shape)}"
            raise RunError(
                f"input '{value.name}' is {found}, expected {value.dtype.numpy}{list(value.shape)}"
            )
        arrays.append(array)
    return arrays


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype == BF16.numpy  # that of ml_dtypes has kind V


class _Run:
    """One evaluation: the floating type that replaces all others, and the hook."""

    def __init__(self, dtype: np.dtype[Any] | None, hook: Hook | None) -> None:
        self.dtype = dtype
        self.hook = hook

    def function(self, function: Function, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Results of a function on arrays for its inputs; each array is dropped after its last use."""
        values: dict[Value, np.ndarray] = {}
        for placeholder, array in zip(function.inputs, arrays, strict=True):
            values[placeholder] = self._converted(array)
        kept = set(function.outputs)
        last = {v: index for index, n in enumerate(function.nodes) for v in n.inputs if v is not None}
        for index, node in enumerate(function.nodes):
            operands = [None if v is None else self._value(v, values) for v in node.inputs]
            values |= zip(node.outputs, self._node(node, operands), strict=True)
            for value in {*(v for v in node.inputs if v is not None), *node.outputs} - kept:
                if last.get(value, index) == index:
                    values.pop(value, None)
        return [self._value(value, values) for value in function.outputs]

    def _value(self, value: Value, values: Mapping[Value, np.ndarray]) -> np.ndarray:
        if not isinstance(value, Constant):
            return values[value]
        storage = value.type.storage
        plain = value.data if storage == PLAIN else storage.unpack(value.data, value.shape)
        return self._converted(plain)

    def _node(self, node: Node, operands: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        try:
            results = [self._converted(np.asarray(a)) for a in self._results(node, operands)]
        except TilewrightError as error:
            raise RunError(f"node '{node.name}': {error}") from error
        for value, array in zip(node.outputs, results, strict=True):
            exact = self.dtype is None or not value.dtype.is_float
            if not value.type.holds(array.shape) or (exact and array.dtype != value.dtype.numpy):
                found = f"{array.dtype}{list(array.shape)}"
                raise RunError(f"node '{node.name}': {node.op} gave {found} where {value.type} is declared")
        if self.hook is not None:
            self.hook(node, results)
        return results

    def _results(self, node: Node, operands: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        if node.op == "Fused":
            return self.function(body_of(node), [a for a in operands if a is not None])
        if node.op == "Scan":
            return self._scan(node, [a for a in operands if a is not None])
        if node.op == "Loop":
            return self._loop(node, operands)
        if node.op == "If":
            condition, *captures = (a for a in operands if a is not None)
            return self.function(node.bodies[0 if condition else 1], captures)
        types = [None if v is None else v.type for v in node.inputs]
        attrs = true_attributes(types, operands, self._attributes(node))
        return operator_of(node).evaluate(operands, attrs)

    def _attributes(self, node: Node) -> Attrs:
        """In another floating type only a Cast to a half type still rounds."""
        to = node.attrs.get("to") if node.op == "Cast" else None
        if self.dtype is None or to is None or not to.is_float or to.bits < 32:
            return node.attrs
        return {**node.attrs, "to": DType.of(self.dtype)}

    def _scan(self, node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        attrs, body, length = attributes(node), body_of(node), scan_length(node)
        first, past = attrs["num_states"], attrs["num_states"] + attrs["num_scans"]
        states, scans, captures = list(operands[:first]), operands[first:past], operands[past:]
        stacked = [
            np.empty((length, *v.shape), self.dtype if self.dtype and v.dtype.is_float else v.dtype.numpy)
            for v in body.outputs[first:]
        ]
        for step in reversed(range(length)) if attrs["reverse"] else range(length):
            results = self.function(body, [*states, *(scan[step] for scan in scans), *captures])
            states = results[:first]
            for stack, result in zip(stacked, results[first:], strict=True):
                stack[step] = result
        return [*states, *stacked]

    def _loop(self, node: Node, operands: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """What a turn that did not run would have stacked is zero."""
        attrs, body = attributes(node), body_of(node)
        limit, going = operands[:LOOP_OPERANDS]
        given = [a for a in operands[LOOP_OPERANDS:] if a is not None]
        count, skipped = attrs["num_states"], leading_results(node)
        states, captures = given[:count], given[count:]
        stacked = [
            np.zeros(v.shape, self.dtype if self.dtype and v.dtype.is_float else v.dtype.numpy)
            for v in node.outputs[count:]
        ]
        turn = 0
        while (going is None or going) and (limit is None or turn < limit) and turn != attrs["max_trips"]:
            results = self.function(body, [*states, *captures])
            going = results[0] if skipped else going
            states = results[skipped : skipped + count]
            for stack, result in zip(stacked, results[skipped + count :], strict=True):
                stack[turn] = result
            turn += 1
        return [*states, *stacked]

    def _converted(self, array: np.ndarray) -> np.ndarray:
        if self.dtype is None or not _is_float(array):
            return array
        return array.astype(self.dtype, copy=False)
