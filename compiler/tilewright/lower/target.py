"""What the compiler asks of a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.graph.ir import Node
from tilewright.machine import Machine
from tilewright.program.callee import Callee
from tilewright.program.ir import Program
from tilewright.program.plan import Plan
from tilewright.schedule.schedule import Schedule
from tilewright.segment import Segment
from tilewright.storage import Wish
from tilewright.tensor.ir import Tensor
from tilewright.types import TensorType

MODEL = "analytic model"


@dataclass(frozen=True)
class Group:
    """One kernel to be: the expressions of a primitive or of a Fused node.

    inputs: placeholders in the order of the node's operands, with their types; outputs likewise.
    anchor: the tensor of the operator that decides the template (the hardest to fuse), with that operator's
    name.
    """

    name: str
    inputs: tuple[Tensor, ...]
    input_types: tuple[TensorType, ...]
    outputs: tuple[Tensor, ...]
    output_types: tuple[TensorType, ...]
    anchor: Tensor
    anchor_op: str
    ops: Sequence[str] = ()


@dataclass(frozen=True)
class Choice:
    """A schedule with the template it came from.

    source: `default`, MODEL where a model of the machine set the template's knobs, or the key of a record;
    knobs: what they are set to, as `name=value`.
    """

    template: str
    schedule: Schedule
    source: str = "default"
    knobs: str = ""


class Target(Protocol):
    """name: as in `--target`; machine: what code is generated for."""

    name: str
    machine: Machine

    @property
    def schedule_key(self) -> str:
        """Names all that `schedule` looks at beside the group, code included: equal keys, equal schedules."""
        ...

    def should_lower(self, node: Node) -> bool:
        """Whether a node that could be lowered to simpler operators shall be."""
        ...

    def wish(self, node: Node) -> Wish | None:
        """The storages that the target's template for a node reads and writes; None: any will do."""
        ...

    def pack_cost(self, type: TensorType) -> float:
        """Cycles of bringing a tensor of this type into another storage."""
        ...

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """Expected cycles of a product by each algorithm, such as `direct` or a name of
        `ops.winograd.ALGORITHMS`; empty where there is only one.
        """
        ...

    def schedule(self, group: Group) -> Choice:
        """The schedule of a group. Raises LoweringError."""
        ...

    def compile_kernel(self, callee: Callee) -> bytes:
        """Code of one kernel, made as soon as it is lowered; empty where code is made for programs only.

        Raises CodegenError.
        """
        ...

    def assemble(self, program: Program, plan: Plan) -> Segment:
        """Code of a whole program. Raises CodegenError."""
        ...
