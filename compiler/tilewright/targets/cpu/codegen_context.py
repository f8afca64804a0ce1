"""What code generation knows at one point of a loop program.

Variables, buffers, the vector loop and its active lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilewright.dtypes import BOOL, I64
from tilewright.errors import CodegenError
from tilewright.expr import Binary, Const, Expr, Var, children
from tilewright.loops.affine import Bounds
from tilewright.loops.ir import Buffer
from tilewright.targets.cpu.codegen_builder import Function
from tilewright.targets.cpu.codegen_types import Value


@dataclass(frozen=True)
class Binding:
    """A scalar variable: its operand and the depth of the scope that defines it."""

    value: Value
    depth: int


@dataclass(frozen=True)
class Pointer:
    """A buffer in memory; ref points at its first element. constant: the kernel does not write to it."""

    ref: str
    constant: bool = False


@dataclass(frozen=True)
class Registers:
    """A buffer whose elements are private variables: one a constant index.

    lanes: 0 when an element is a scalar, else the slots are vectors along the last axis. slots: allocas by
    slot index.
    """

    lanes: int
    slots: dict[tuple[int, ...], str]


@dataclass(frozen=True)
class Tiles:
    """A buffer of sums in tile registers. numbers: of the tiles, by the constants in their indices."""

    numbers: dict[tuple[int, ...], int]


Place = Pointer | Registers | Tiles


@dataclass(frozen=True)
class VectorLoop:
    """The vectorised loop around: its variable runs over 0 .. lanes-1."""

    name: str
    lanes: int


@dataclass(frozen=True)
class Context:
    """mask: the active lanes as a vector of bits, None for all; parallel: whether a task is being written.

    fault: the number of the kernel in what it writes to env when it meets a fault in its data.
    """

    function: Function
    variables: Mapping[str, Binding] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    vector: VectorLoop | None = None
    mask: Value | None = None
    parallel: bool = False
    fault: int = 1

    def binding(self, name: str) -> Binding:
        if name not in self.variables:
            raise CodegenError(f"variable '{name}' is used outside its loop")
        return self.variables[name]

    def place(self, buffer: Buffer) -> Place:
        if buffer.name not in self.places:
            raise CodegenError(f"buffer '{buffer.name}' is neither a parameter nor allocated here")
        return self.places[buffer.name]

    def bind(self, name: str, binding: Binding, bounds: Bounds) -> Context:
        return replace(self, variables={**self.variables, name: binding}, bounds=bounds)

    def with_place(self, buffer: Buffer, place: Place) -> Context:
        return replace(self, places={**self.places, buffer.name: place})

    def is_lane(self, e: Expr) -> bool:
        return self.vector is not None and isinstance(e, Var) and e.name == self.vector.name

    def varies(self, e: Expr) -> bool:
        """Whether the value may differ from lane to lane."""
        if self.vector is None:
            return False
        return self.is_lane(e) or any(self.varies(part) for part in children(e))

    def depth(self, e: Expr) -> int | None:
        """The scope index arithmetic can be computed at.

        None when it is more than that, reads memory or differs by lane.
        """
        if self.is_lane(e) or not isinstance(e, (Var, Const, Binary)):
            return None
        if isinstance(e, Var):
            return self.binding(e.name).depth
        if isinstance(e, Binary) and e.a.dtype not in (I64, BOOL):
            return None
        deepest = 0
        for part in children(e):
            depth = self.depth(part)
            if depth is None:
                return None
            deepest = max(deepest, depth)
        return deepest
