"""What tensor expressions mean: vectorised NumPy evaluation over index grids.

It serves as the reference for schedules and operators, not as a fast way to run a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.arithmetic import BINARY, INTRINSICS
from tilewright.dtypes import DType
from tilewright.errors import LoweringError, RunError
from tilewright.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from tilewright.tensor.ir import Reduce, Stage, Tensor, identity_of, stages_of

CHUNK = 1 << 22  # grid points evaluated at once

Array = Any  # np.ndarray or NumPy scalar


_REDUCE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def evaluate_tensors(outputs: Sequence[Tensor], feeds: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """The arrays of `outputs`, given one array for every placeholder, by name.

    Raises RunError when a feed is missing or has another shape or element type, LoweringError when an
    expression reads outside its source (a read under a condition that is false does not count).
    """
    values: dict[int, np.ndarray] = {}
    for stage in stages_of(outputs):
        if stage.is_placeholder:
            values[id(stage.outputs[0])] = _feed(stage.outputs[0], feeds)
            continue
        for tensor, array in zip(stage.outputs, _evaluate_stage(stage, values), strict=True):
            values[id(tensor)] = array
    return tuple(values[id(tensor)] for tensor in outputs)


def _feed(tensor: Tensor, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    if tensor.name not in feeds:
        raise RunError(f"placeholder '{tensor.name}' has no array; given: {', '.join(feeds) or 'none'}")
    array = np.asarray(feeds[tensor.name])
    if array.shape != tensor.shape or array.dtype != tensor.dtype.numpy:
        raise RunError(
            f"placeholder '{tensor.name}' is {tensor.dtype}{list(tensor.shape)}, "
            f"given {array.dtype}{list(array.shape)}"
        )
    return array


def _evaluate_stage(stage: Stage, values: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    shape = tuple(axis.extent for axis in stage.axes)
    results = [np.zeros(shape, dtype.numpy) for dtype in stage.dtypes]
    if prod(shape) == 0:
        return results
    inner = prod(shape[1:]) * max(1, prod(axis.extent for axis in stage.reduce_axes))
    rows = max(1, CHUNK // inner)
    for start in range(0, shape[0] if shape else 1, rows):
        ranges = [np.arange(n) for n in shape]
        where: Any = ...
        if shape:
            where = slice(start, min(start + rows, shape[0]))
            ranges[0] = ranges[0][where]
        for result, body in zip(results, stage.bodies, strict=True):
            part = result[where]
            part[...] = _evaluate_body(stage, body, ranges, values)
    return results


def _evaluate_body(
    stage: Stage, body: Expr, ranges: Sequence[np.ndarray], values: Mapping[int, np.ndarray]
) -> Array:
    reduced = body.axes if isinstance(body, Reduce) else ()
    grid = [*ranges, *(np.arange(axis.extent) for axis in reduced)]
    environment: dict[str, Array] = {}
    for position, (axis, indices) in enumerate(zip((*stage.axes, *reduced), grid, strict=True)):
        view = [1] * len(grid)
        view[position] = indices.size
        environment[axis.name] = indices.reshape(view)
    evaluator = _Evaluator(environment, values)
    with np.errstate(all="ignore"):
        if isinstance(body, Reduce):
            return _evaluate_reduction(body, evaluator, tuple(g.size for g in grid), len(ranges))
        return evaluator.value(body)


def _evaluate_reduction(body: Reduce, evaluator: _Evaluator, shape: tuple[int, ...], rank: int) -> np.ndarray:
    flat = (*shape[:rank], prod(shape[rank:]))
    if flat[-1] == 0:
        return np.broadcast_to(evaluator.value(identity_of(body)), shape[:rank])
    terms = [np.broadcast_to(evaluator.value(v), shape).reshape(flat) for v in body.values]
    known = _REDUCE.get(body.reducer.name)
    if known is not None and len(terms) == 1:
        return np.asarray(known.reduce(terms[0], axis=-1, dtype=body.dtype.numpy))
    names = [Var(f"accumulator.{i}", v.dtype) for i, v in enumerate(body.values)]
    news = [Var(f"value.{i}", v.dtype) for i, v in enumerate(body.values)]
    combined = body.reducer.combine(tuple(names), tuple(news))
    identities = [Reduce(body.reducer, body.values, body.axes, i, v.dtype) for i, v in enumerate(body.values)]
    state = [np.broadcast_to(evaluator.value(identity_of(r)), shape[:rank]) for r in identities]
    for step in range(flat[-1]):
        bindings = {a.name: s for a, s in zip(names, state, strict=True)}
        bindings |= {n.name: t[..., step] for n, t in zip(news, terms, strict=True)}
        folded = _Evaluator(bindings, {})
        state = [folded.value(e) for e in combined]
    return state[body.index]


class _Evaluator:
    """Values of expressions under bindings of their variables to broadcastable index arrays."""

    def __init__(self, environment: Mapping[str, Array], values: Mapping[int, np.ndarray]) -> None:
        self.environment = environment
        self.values = values

    def value(self, e: Expr, active: Array = True) -> Array:
        """The value at every grid point; `active` marks the points where it is really evaluated."""
        if isinstance(e, Const):
            return np.asarray(e.value).astype(e.dtype.numpy)[()]
        if isinstance(e, Var):
            return self.environment[e.name]
        if isinstance(e, Binary):
            return BINARY[e.op](self.value(e.a, active), self.value(e.b, active))
        if isinstance(e, Select):
            return self._select(e, active)
        if isinstance(e, Read):
            return self._read(e, active)
        if isinstance(e, Cast):
            return _cast(self.value(e.a, active), e.dtype)
        if isinstance(e, Call):
            return self._call(e, active)
        raise LoweringError(f"a tensor expression cannot hold {type(e).__name__} below its root")

    def _select(self, e: Select, active: Array) -> Array:
        condition = self.value(e.condition, active)
        chosen = self.value(e.a, np.logical_and(active, condition))
        other = self.value(e.b, np.logical_and(active, np.logical_not(condition)))
        return np.where(condition, chosen, other)

    def _read(self, e: Read, active: Array) -> Array:
        array = self.values[id(e.source)]
        indices = [self.value(index, active) for index in e.indices]
        for axis, (index, extent) in enumerate(zip(indices, array.shape, strict=True)):
            outside = np.logical_and(
                active, np.logical_or(np.less(index, 0), np.greater_equal(index, extent))
            )
            if np.any(outside):
                raise LoweringError(f"'{e.source.name}' is read outside axis {axis} of extent {extent}")
        if array.size == 0:
            return np.zeros(np.broadcast_shapes(*(np.shape(i) for i in indices)), array.dtype)
        return array[tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, array.shape, strict=True))]

    def _call(self, e: Call, active: Array) -> Array:
        if e.name == "bitcast":
            bits = np.asarray(self.value(e.args[0], active), e.args[0].dtype.numpy)
            return np.ascontiguousarray(bits).reshape(bits.shape).view(e.dtype.numpy)
        intrinsic = INTRINSICS.get(e.name)
        if intrinsic is None:
            raise LoweringError(f"intrinsic '{e.name}' has no NumPy meaning; known: {', '.join(INTRINSICS)}")
        return _cast(intrinsic(*(self.value(arg, active) for arg in e.args)), e.dtype)


def _cast(value: Array, dtype: DType) -> Array:
    return dtype.cast(value)
