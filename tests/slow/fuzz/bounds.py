"""How far from the float64 evaluation a result may be: derived from the graph, not from experience.

The graph is evaluated in float64 once exactly, which is the centre, and a few times with noise: every node
that rounds gets its operands disturbed by OPERAND units of the last place, and its results by the
textbook bound of its own rounding (`_local`): n units of the sum of the absolute products for n terms, a
few units of the result for a function. The units are those of the result's element type. The largest
deviation of the noisy evaluations, times SAFETY, is the bound; an element's is at least the tensor's mean.
Nodes that only move or choose elements add nothing, whole numbers and truth values must be equal.

A `Licence` says what an engine may do beyond that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import F32
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.ops.declaration import attributes
from tilewright.ops.evaluate import evaluate_function
from tilewright.ops.operator import Fusion, operator_of

SAMPLES = 3
SAFETY = 8.0
OPERAND = 2.0  # units by which operands are disturbed
FUNCTION = 4.0  # units that a function's result may be off
UNITS = {"f64": 2.0**-52, "f32": 2.0**-24, "f16": 2.0**-11}  # f64: the centre rounds as well
SMALLEST = {"f64": 1e-300, "f32": 1e-36, "f16": 6e-8}  # rounding of denormal numbers
LARGEST = {"f64": 1e300, "f32": 1e37, "f16": 6e4}  # where an engine may overflow and float64 does not

CHOOSING = frozenset((
    "Identity", "Relu", "Neg", "Abs", "Max", "Min", "Floor", "Ceil", "Round", "Sign", "Where", "Clip",
    "Transpose", "Reshape", "Slice", "Pad", "Concat", "Split", "Tile", "Expand", "Gather", "GatherElements",
    "DepthToSpace", "SpaceToDepth", "Trilu", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "TopK",
    "Hardmax",
))  # fmt: skip
LINEAR = frozenset((
    "Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "ReduceSum", "ReduceMean", "ReduceL1",
    "ReduceSumSquare", "AveragePool", "GlobalAveragePool", "CumSum", "Add", "Sub", "Mul",
))  # fmt: skip
ROWS = frozenset(("Softmax", "LogSoftmax", "ReduceLogSumExp", "ReduceL2", "LpPool", "ReduceProd"))
CENTRED = frozenset(("LayerNormalization", "GroupNormalization", "BatchNormalization"))


@dataclass(frozen=True)
class Licence:
    """of_one: operators whose results may be off by units of 1, not of the result; operands: by what share
    of itself any float32 value that is read is disturbed; transforms: how much more Winograd's transforms
    add to an error.
    """

    of_one: frozenset[str] = frozenset()
    operands: float = 0.0
    transforms: float = 4.0


OURS = Licence()
PEER = Licence(of_one=frozenset(("Sigmoid",)))  # of ONNX Runtime
# docs/precision.md
MODES = {"fp32-fast": Licence(transforms=64.0), "bf16": Licence(operands=OPERAND * 2.0**-9)}

Arrays = Sequence[np.ndarray | None]
Bounds = dict[str, tuple[np.ndarray, np.ndarray | None]]


def bounds(function: Function, feeds: Mapping[str, np.ndarray], seed: int, licence: Licence = OURS) -> Bounds:
    """By output: the float64 values, and how far from them a right result may lie; None: not at all."""
    wide = np.dtype(np.float64)
    with np.errstate(all="ignore"):
        centre = evaluate_function(function, feeds, wide)
        noisy = [
            evaluate_function(function, feeds, wide, _Noise(function, feeds, seed + 7919 * k, licence))
            for k in range(SAMPLES)
        ]
    found: Bounds = {}
    for name, value in zip(function.output_names, function.outputs, strict=True):
        if not value.dtype.is_float:
            found[name] = centre[name], None
            continue
        with np.errstate(all="ignore"):
            off = np.max([np.abs(sample[name] - centre[name]) for sample in noisy], axis=0)
        typical = float(np.mean(off)) if off.size and np.isfinite(off).all() else 0.0
        last = UNITS[value.dtype.name] * FUNCTION * np.abs(centre[name]) + SMALLEST[value.dtype.name]
        allowed = SAFETY * np.maximum(off, typical) + (
            last if off.any() or value.dtype.name == "f16" else 0.0
        )
        overflow = np.abs(centre[name]) > LARGEST[value.dtype.name]
        found[name] = centre[name], np.where(overflow, np.inf, allowed)
    return found


class _Noise:
    """The hook of a noisy evaluation: replaces the results of nodes that round."""

    def __init__(
        self, function: Function, feeds: Mapping[str, np.ndarray], seed: int, licence: Licence
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.licence = licence
        self.values: dict[Value, np.ndarray] = {}
        for placeholder in function.inputs:
            array = feeds[placeholder.name]
            self.values[placeholder] = array.astype(np.float64) if placeholder.dtype.is_float else array

    def __call__(self, node: Node, results: Sequence[np.ndarray]) -> None:
        assert isinstance(results, list)
        if self._rounds(node):
            results[0] = self._disturbed(node, results[0])
        self.values.update(zip(node.outputs, results, strict=True))

    def _rounds(self, node: Node) -> bool:
        """Readers of rounded values do, even those that choose elements."""
        reads = self.licence.operands > 0 and operator_of(node).fusion <= Fusion.BROADCAST
        return (node.op not in CHOOSING or reads) and node.output.dtype.is_float

    def _disturbed(self, node: Node, exact: np.ndarray) -> np.ndarray:
        unit = UNITS[node.output.dtype.name]
        operands = [self._operand(value) for value in node.inputs]
        if node.op == "Cast":
            return exact + self._signs(exact.shape) * unit * np.abs(exact) * _narrows(node)
        moved = [a if a is None or a.dtype.kind != "f" else self._moved(node, a, unit) for a in operands]
        result = np.asarray(operator_of(node).evaluate(moved, _attributes(node))[0], np.float64)
        if node.op in CHOOSING:
            return result
        local = _local(node, operands, exact, unit, self.licence.transforms)
        local = local + unit * (node.op in self.licence.of_one)
        return result + self._signs(result.shape) * local

    def _moved(self, node: Node, array: np.ndarray, unit: float) -> np.ndarray:
        error = self.licence.operands if node.output.dtype == F32 else 0.0
        size = max(OPERAND * unit, error) * np.abs(array)
        if node.op in CENTRED and array.size:  # a mean is subtracted, which is off by units of the largest
            size = size + unit * np.sqrt(array.size) * np.abs(array).max()
        return array + self._signs(array.shape) * size

    def _signs(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.choice((-1.0, 1.0), shape)

    def _operand(self, value: Value | None) -> np.ndarray | None:
        if not isinstance(value, Constant):
            return None if value is None else self.values[value]
        return value.data.astype(np.float64) if value.dtype.is_float else value.data


def _narrows(node: Node) -> float:
    source = node.operand(0).dtype
    return float(not source.is_float or source.bits > node.output.dtype.bits)


def _attributes(node: Node) -> dict[str, Any]:
    return dict(node.attrs)


def _local(node: Node, operands: Arrays, exact: np.ndarray, unit: float, transforms: float) -> np.ndarray:
    """The rounding of the node itself, for every element of its result."""
    if node.op in LINEAR:
        attrs = attributes(node)
        alpha = {key: abs(v) for key, v in attrs.items() if key in ("alpha", "beta")}
        op = "Add" if node.op == "Sub" else node.op
        absolute = [None if a is None else np.abs(a) for a in operands]
        rule: Callable[..., Any] = operator_of(node).evaluate if op == node.op else np.add
        sums = rule(absolute, {**node.attrs, **alpha})[0] if op == node.op else rule(*absolute)
        if node.op in ("Conv", "ConvTranspose") and sums.size:
            # Winograd's transforms mix the elements of a tile: the bound is that of the worst place
            worst = sums.max(axis=tuple(range(2, sums.ndim)), keepdims=True)
            sums = np.broadcast_to(transforms * worst, sums.shape)
        return unit * (_terms(node, operands, exact) + FUNCTION) * np.asarray(sums)
    terms = _terms(node, operands, exact) if node.op in ROWS else 0
    return unit * (terms + FUNCTION) * np.abs(exact) + (unit * FUNCTION if node.op == "LogSoftmax" else 0.0)


def _terms(node: Node, operands: Arrays, exact: np.ndarray) -> int:
    """How many numbers are added for one element."""
    first, second = operands[0], operands[1] if len(operands) > 1 else None
    assert first is not None
    if node.op in ("Conv", "ConvTranspose"):
        assert second is not None
        return prod(second.shape[1:] if node.op == "Conv" else (second.shape[0], *second.shape[2:]))
    if node.op in ("AveragePool", "LpPool"):
        return prod(node.attrs["kernel_shape"])
    if node.op in ("MatMul", "Gemm"):
        return max(first.shape)
    if node.op in ("Softmax", "LogSoftmax", "CumSum"):
        return first.shape[node.attrs["axis"]]
    if node.op in ("Add", "Sub", "Mul"):
        return 0
    return first.size // max(1, exact.size) if node.op != "Einsum" else prod(first.shape[-2:])
