"""Products whose second operand lies as the model has it: which of them run like packed ones, and how wide.

Instead of a panel's lines, vectors of columns are read from rows of the whole matrix, or lane by lane where
columns are rows in memory.
"""

from __future__ import annotations

from tilewright.dtypes import F32
from tilewright.expr import Read, reads_of
from tilewright.loops.affine import Bounds
from tilewright.lower.target import Group
from tilewright.machine import Machine
from tilewright.storage import PLAIN
from tilewright.targets.cpu.schedules.common import memory_order, place
from tilewright.targets.cpu.schedules.tiles import MAX_VECTORS, panel_vectors
from tilewright.tensor.ir import Reduce
from tilewright.types import TensorType


def unpacked_vectors(group: Group, column: int, machine: Machine, wanted: int = MAX_VECTORS) -> int:
    """Vectors of columns in a register tile, `wanted` at most; 0 where another template does better.

    column: the axis of the result that runs over columns. Another does where that is not the contiguous axis
    of several, where a vector would reach into another group of a convolution, and for stacks of matrices.
    """
    found = _operands(group)
    if found is None or memory_order(group)[-1] != column:
        return 0
    (x, _), (w, type) = found
    if type.dtype != F32 or type.storage != PLAIN:
        return 0
    if group.anchor_op != "Conv":
        groups = 1 if type.rank == 2 else 0
    else:
        groups = x.source.shape[1] // type.shape[1]
    if not groups:
        return 0
    lanes = machine.lanes(32)
    step = place(type, w.indices, Bounds()).terms.get(group.anchor.stage.axes[column].var)
    vectors = wanted if step == 1 else 1  # a vector that is gathered serves as many rows as possible
    return panel_vectors(vectors, group.outputs[0].shape[column] // groups, groups, lanes)


def _operands(group: Group) -> list[tuple[Read, TensorType]] | None:
    """What the product reads, with types; None unless those are two inputs of the kernel."""
    bodies = [body for body in group.anchor.stage.bodies if isinstance(body, Reduce)]
    reads = [r for body in bodies for value in body.values for r in reads_of(value)]
    types = dict(zip(group.inputs, group.input_types, strict=True))
    if len(reads) != 2 or any(r.source not in types for r in reads):
        return None
    return [(r, types[r.source]) for r in reads]
