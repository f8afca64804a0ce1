"""A graph while it is drawn: its tensors, nodes, inputs and constants."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int64", "int32", "int8", "uint8")
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 33)
MOST_ELEMENTS = 6000  # of one tensor: larger ones would only take longer
LARGEST = 100.0  # magnitude beyond which values are brought back by Tanh


@dataclass(frozen=True)
class Tensor:
    """dtype: NumPy's name. magnitude: about the largest absolute value.

    exact: every engine computes the very same bits, so a step such as Floor or a comparison may follow.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    exact: bool = True
    magnitude: float = 4.0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


@dataclass
class Case:
    """A model with values for its inputs."""

    model: ModelProto
    feeds: dict[str, np.ndarray]


@dataclass
class Drawing:
    """random: decides everything, so a seed is a graph. opset: of the standard operators."""

    random: random.Random
    opset: int
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.numbers = np.random.default_rng(self.random.getrandbits(63))

    # drawing

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def among(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def dims(self, rank: int, most: int = MOST_ELEMENTS) -> tuple[int, ...]:
        """Sizes of a tensor of at most `most` elements; rarely one of them is 0."""
        sizes = [self.among(SIZES) for _ in range(rank)]
        while np.prod(sizes) > most:
            at = sizes.index(max(sizes))
            sizes[at] = max(1, sizes[at] // 2)
        if rank and self.chance(0.02):
            sizes[self.between(0, rank - 1)] = 0
        return tuple(sizes)

    def values(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """Numbers within ±4; half of the time multiples of 1/4, among which there are ties and zeros."""
        if dtype == "bool":
            return np.asarray(self.numbers.random(tuple(shape)) < 0.5)
        if dtype in INTEGERS:
            low = 0 if dtype == "uint8" else -9
            return np.asarray(self.numbers.integers(low, 10, tuple(shape))).astype(dtype)
        found = np.clip(self.numbers.standard_normal(tuple(shape)), -4, 4)
        if self.chance(0.5):
            found = np.round(found * 4) / 4
        return np.asarray(found).astype(dtype)

    # building

    def constant(self, array: np.ndarray) -> Tensor:
        """An initializer. Small ones are shared by chance: equal constants may become one anyway."""
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        largest = float(np.abs(array.astype(np.float64)).max()) if array.size else 0.0
        return Tensor(name, array.dtype.name, array.shape, True, max(largest, 1e-3))

    def input(self, dtype: str, shape: Sequence[int]) -> Tensor:
        name = f"x{len(self.inputs)}"
        self.feeds[name] = self.values(dtype, shape)
        tensor = Tensor(name, dtype, tuple(shape), True, 9.0 if dtype in INTEGERS else 4.0)
        self.inputs.append(tensor)
        self.tensors.append(tensor)
        return tensor

    def weights(self, dtype: str, shape: Sequence[int], scale: float = 1.0) -> Tensor:
        """An operand of a layer: mostly a constant, sometimes an input or a tensor of the graph."""
        fits = [t for t in self.tensors if t.shape == tuple(shape) and t.dtype == dtype and t.magnitude <= 4]
        if fits and self.chance(0.2):
            return self.among(fits)
        if self.chance(0.2):
            return self.input(dtype, shape)
        shared = [n for n, a in self.constants.items() if a.dtype == dtype and a.shape == tuple(shape)]
        if shared and self.chance(0.5):
            name = self.among(shared)
            largest = float(np.abs(self.constants[name].astype(np.float64)).max(initial=0.0))
            return Tensor(name, dtype, tuple(shape), True, largest)
        return self.constant((self.values(dtype, shape) * scale).astype(dtype))

    def node(
        self,
        op: str,
        operands: Sequence[Tensor | None],
        results: Sequence[tuple[str, Sequence[int]]] | None = None,
        *,
        exact: bool = False,
        magnitude: float | None = None,
        **attributes: Any,
    ) -> list[Tensor]:
        """Adds a node. results: element type and shape of each, by default those of the first operand."""
        first = operands[0]
        assert first is not None
        largest = max((t.magnitude for t in operands if t is not None), default=1.0)
        made = []
        for dtype, shape in results or [(first.dtype, first.shape)]:
            kept = exact and all(t is None or t.exact for t in operands)
            kept = kept or dtype == "bool" or dtype in INTEGERS
            bound = largest if magnitude is None else magnitude
            made.append(Tensor(f"t{len(self.tensors)}", dtype, tuple(map(int, shape)), kept, bound))
            self.tensors.append(made[-1])
        names = ["" if t is None else t.name for t in operands]
        while names and not names[-1]:
            names.pop()
        self.used.update(names)
        outputs = [t.name for t in made]
        self.nodes.append(helper.make_node(op, names, outputs, f"n{len(self.nodes)}", **attributes))
        return made

    def one(self, op: str, *operands: Tensor | None, **facts: Any) -> Tensor:
        """As `node`, for a single result."""
        return self.node(op, operands, **facts)[0]

    def integers(self, values: Sequence[int]) -> Tensor:
        """A constant of int64, such as a shape operand."""
        return self.constant(np.asarray(values, np.int64))

    def pick(self, wanted: Callable[[Tensor], bool]) -> Tensor | None:
        """A tensor of the graph, rather one of the last, that has a property."""
        fits = [t for t in self.tensors if wanted(t)]
        if not fits:
            return None
        return self.among(fits[-3:]) if self.chance(0.7) else self.among(fits)

    def tame(self, x: Tensor, largest: float = LARGEST) -> Tensor:
        """x, or its Tanh when its values may be large."""
        return x if x.magnitude <= largest else self.one("Tanh", x, magnitude=1.0)

    def case(self) -> Case:
        """The finished graph. Outputs: whatever nobody reads, and some of what others do."""
        made = {name for node in self.nodes for name in node.output}
        outputs = [
            t for t in self.tensors if t.name in made and (t.name not in self.used or self.chance(0.15))
        ]
        self.random.shuffle(outputs)
        read = self.used | {t.name for t in outputs}
        inputs = [t for t in self.inputs if t.name in read]
        graph = helper.make_graph(
            self.nodes,
            "fuzz",
            [_info(t) for t in inputs],
            [_info(t) for t in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in self.used],
        )
        imports = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        checker.check_model(model)
        return Case(model, {t.name: self.feeds[t.name] for t in inputs})


def _info(tensor: Tensor) -> Any:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    assert code != TensorProto.UNDEFINED
    return helper.make_tensor_value_info(tensor.name, code, tensor.shape)
