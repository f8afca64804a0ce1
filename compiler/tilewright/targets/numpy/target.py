"""The oracle: runs the graph itself with NumPy, operator by operator, in the types of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.config import CompileOptions
from tilewright.errors import CodegenError, LoweringError
from tilewright.graph.ir import Function, Node, Value
from tilewright.lower.build import fresh_name
from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.ops.evaluate import evaluate_function
from tilewright.program.callee import Callee
from tilewright.program.ir import Program
from tilewright.program.plan import Plan
from tilewright.segment import Port, Segment
from tilewright.storage import Wish
from tilewright.types import Bounded, TensorType


class NumpyTarget:
    """What the graph passes ask. There are no kernels, so nothing is scheduled or assembled."""

    name = "numpy"

    def __init__(self, machine: Machine | None, options: CompileOptions) -> None:
        self.machine = machine or Machine("numpy", "")
        self.options = options

    @property
    def schedule_key(self) -> str:
        """Nothing is scheduled."""
        return ""

    def should_lower(self, node: Node) -> bool:
        return True

    def pack_cost(self, type: TensorType) -> float:
        """Nothing asks: no wish here is for other than plain activations."""
        return 0.0

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """The oracle computes what the model says."""
        return {}

    def wish(self, node: Node) -> Wish | None:
        return None

    def schedule(self, group: Group) -> Choice:
        raise LoweringError(f"group '{group.name}': target 'numpy' evaluates graphs and has no kernels")

    def compile_kernel(self, callee: Callee) -> bytes:
        raise CodegenError(f"kernel '{callee.name}': target 'numpy' evaluates graphs and has no code")

    def assemble(self, program: Program, plan: Plan) -> Segment:
        raise CodegenError(f"program '{program.name}': target 'numpy' evaluates graphs and has no code")


class GraphRun:
    """A function in the place of a loaded segment. Evaluation keeps no state, so runs may be concurrent."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Evaluates the function in its own types. Raises RunError for data that an operator refuses."""
        names = [value.name for value in self._function.inputs]
        results = evaluate_function(self._function, dict(zip(names, inputs, strict=True)))
        for target, result in zip(outputs, results.values(), strict=False):
            target[tuple(map(slice, result.shape))] = result
        pairs = zip(self._function.outputs, results.values(), strict=True)
        sizes = [result.shape[axis] for value, result in pairs for axis in _bounded_axes(value)]
        for target, size in zip(outputs[len(results) :], sizes, strict=True):
            target[...] = size


def _bounded_axes(value: Value) -> list[int]:
    return [axis for axis, extent in enumerate(value.shape) if isinstance(extent, Bounded)]


def graph_segment(function: Function) -> Segment:
    """A segment without code that describes the function's inputs, its outputs, and the counts of these."""
    inputs = [Port(value.name, value.dtype.name, value.shape, 0) for value in function.inputs]
    outputs: list[Port] = []
    sizes: list[Port] = []
    taken = set(function.output_names)
    for name, value in zip(function.output_names, function.outputs, strict=True):
        counts = tuple((axis, fresh_name(f"{name}:count", taken)) for axis in _bounded_axes(value))
        sizes += [Port(count, "i64", (), 0) for _, count in counts]
        type = value.type.at_bound()
        outputs.append(Port(name, type.dtype.name, type.shape, 0, counts))
    outputs += sizes
    return Segment("numpy", b"", np.zeros(0, np.uint8), tuple(inputs), tuple(outputs), 0, 0)
