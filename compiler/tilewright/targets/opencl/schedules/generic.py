"""One template for every group: outputs are tiled, each work-item computes one tile in registers.

Element-wise producers are inlined. A reduction whose elements correspond to the output's is computed tile by
tile inside the bound loops. Reductions that several output elements share (softmax, normalisation) are
computed once a row, by the work-item that owns the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from tilewright.dtypes import F32
from tilewright.expr import Expr, Read, const, free_vars, reads_of, substitute
from tilewright.lower.target import Choice, Group
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import StageState, is_reduction
from tilewright.targets.opencl.costs import packed_lanes
from tilewright.targets.opencl.schedules.blocks import block_sums
from tilewright.tensor.ir import Reduce, Tensor

_WIDTHS = (8, 4)
_LARGEST = 8  # outputs of a work-item along one axis
_DIMENSIONS = 3  # of the index space of work-items


@dataclass(frozen=True)
class _Tile:
    """Outputs of one work-item: how many along which axes; lanes: the axis among them that is a vector."""

    factors: Mapping[int, int] = field(default_factory=dict)
    lanes: int | None = None


def schedule_generic(group: Group) -> Choice:
    """The default schedule of a group."""
    schedule = Schedule(group.outputs)
    roots = list(schedule.state.outputs)
    kept = {name for name, stage in schedule.state.stages.items() if name in roots or is_reduction(stage)}
    owners = {name: _owners(schedule, name, roots) for name in kept}
    for name in list(schedule.state.stages):
        if name not in kept:
            schedule.compute_inline(name)
    if any(len(users) > 1 for users in owners.values()):
        return Choice("serial", schedule)  # one work-item keeps what several outputs read
    packed = max((packed_lanes(type.storage) for type in group.input_types), default=0)
    for root in roots:
        mine = [n for n in kept if n not in roots and owners[n] == {root}]
        _schedule_root(schedule, root, mine, packed if group.anchor_op == "Conv" else 0)
    return Choice("generic", schedule)


def _owners(schedule: Schedule, name: str, roots: list[str]) -> set[str]:
    """Outputs that need an intermediate stage, and not through another output."""
    if name in roots:
        return set()
    found: set[str] = set()
    for reader in schedule.state.consumers(name):
        found |= {reader.name} if reader.name in roots else _owners(schedule, reader.name, roots)
    return found


def _schedule_root(schedule: Schedule, root: str, producers: list[str], packed: int) -> None:
    stage = schedule.state.stage(root)
    shape = [axis.extent for axis in stage.stage.axes]
    if not shape or not prod(shape):
        return  # one element, or none: there is nothing to share out
    ordered = [name for name in schedule.state.stages if name in producers]
    if is_reduction(stage):
        ordered.append(schedule.cache_write(root, "register"))
    if len(ordered) <= 1 and all(_in_step(schedule, stage, name) for name in ordered):
        _schedule_tiles(schedule, stage, ordered, packed)
    else:
        _schedule_rows(schedule, stage, ordered)


def _in_step(schedule: Schedule, stage: StageState, producer: str) -> bool:
    """Whether each output element reads the producer at its own index only."""
    outputs = schedule.state.stage(producer).stage.outputs
    axes = stage.stage.axes
    if len(outputs[0].shape) != len(axes):
        return False
    return all(
        index == axis.var or (axis.extent == 1 and index == const(0))
        for r in _reads(schedule, stage, outputs)
        for index, axis in zip(r.indices, axes, strict=True)
    )


def _reads(schedule: Schedule, stage: StageState, tensors: tuple[Tensor, ...]) -> list[Read]:
    """Reads of the tensors by a stage, also through the stages that are inlined into it."""
    wanted = set(map(id, tensors))
    pending: list[Expr] = []
    for body in stage.stage.bodies:
        pending += body.values if isinstance(body, Reduce) else (body,)
    found: list[Read] = []
    while pending:
        for r in reads_of(pending.pop()):
            if id(r.source) in wanted:
                found.append(r)
            inlined = schedule.state.stages.get(r.source.stage.name)
            if inlined is not None and inlined.attach.how == "inline":
                axes = [axis.name for axis in inlined.stage.axes]
                bindings = dict(zip(axes, r.indices, strict=True))
                pending.append(substitute(inlined.stage.bodies[r.source.index], bindings))
    return found


def _schedule_tiles(schedule: Schedule, stage: StageState, producers: list[str], packed: int) -> None:
    """Each work-item computes one tile of outputs; the sums of a producer stay in registers."""
    sums = schedule.state.stage(producers[0]) if producers else None
    tile = _tile(stage, sums, packed)
    outer = [axis.name for axis in stage.stage.axes]
    inner: dict[int, str] = {}
    for position, factor in tile.factors.items():
        outer[position], inner[position] = schedule.split(stage.name, outer[position], factor)
    _write_out(schedule, stage.name, outer, inner, tile)
    last = _bind(schedule, stage, outer)
    if sums is None:
        return
    if sums.scope != "register":
        schedule.set_scope(sums.name, "register")
    partial = block_sums(schedule, sums.name)
    schedule.compute_at(sums.name, stage.name, last)
    reduced = [axis.name for axis in sums.stage.reduce_axes]
    _write_out(schedule, sums.name, reduced, _data_loops(sums, len(outer)), tile)
    if partial is not None:
        summing = schedule.state.stage(partial)
        schedule.set_scope(partial, "register")
        schedule.compute_at(partial, sums.name, reduced[-1])
        blocks = [axis.name for axis in summing.stage.axes[: -len(outer)]]
        terms = [axis.name for axis in summing.stage.reduce_axes]
        _write_out(schedule, partial, [*blocks, *terms], _data_loops(summing, len(outer)), tile)


def _data_loops(stage: StageState, rank: int) -> dict[int, str]:
    """Loops over the output's axes, by position; a stage that sums blocks has further axes in front."""
    return {position: axis.name for position, axis in enumerate(stage.stage.axes[-rank:])}


def _write_out(schedule: Schedule, stage: str, outer: list[str], inner: dict[int, str], tile: _Tile) -> None:
    """The inner loops inside the outer ones: straight code, and innermost the vector."""
    straight = [name for position, name in inner.items() if position != tile.lanes]
    vector = [name for position, name in inner.items() if position == tile.lanes]
    schedule.reorder(stage, *outer, *straight, *vector)
    for name in straight:
        schedule.unroll(stage, name)
    for name in vector:
        schedule.vectorize(stage, name)


def _tile(stage: StageState, sums: StageState | None, packed: int) -> _Tile:
    """packed: lanes of output channels that the weights keep together, or 0."""
    shape = [axis.extent for axis in stage.stage.axes]
    last = len(shape) - 1
    dtypes = (*stage.stage.dtypes, *(sums.stage.dtypes if sums else ()))
    if len(stage.stage.dtypes) > 1 or any(dtype != F32 for dtype in dtypes):
        return _Tile()
    if sums is not None and packed:
        return _Tile({1: packed, last: _divisor(shape[last])}, lanes=1)
    width = next((n for n in _WIDTHS if shape[last] % n == 0), 0)
    if sums is None:
        return _Tile({last: width}, lanes=last) if width else _Tile()
    return _Tile({last: width or _divisor(shape[last])}, lanes=last if width else None)


def _divisor(extent: int) -> int:
    """The largest divisor of an extent that a tile may have."""
    return max(n for n in range(1, _LARGEST + 1) if extent % n == 0)


def _bind(schedule: Schedule, stage: StageState, loops: list[str]) -> str:
    """Bind loops, the innermost to dimension 0; leading ones are fused. Returns the innermost bound loop."""
    surplus = len(loops) - _DIMENSIONS
    if surplus > 0:
        loops = [schedule.fuse(stage.name, *loops[: surplus + 1]), *loops[surplus + 1 :]]
    for dimension, loop in enumerate(reversed(loops)):
        schedule.bind(stage.name, loop, f"global.{dimension}")
    return loops[-1]


def _schedule_rows(schedule: Schedule, stage: StageState, producers: list[str]) -> None:
    """A work-item owns all outputs that share the producers' elements, and computes these first."""
    used: set[str] = set()
    for name in producers:
        for r in _reads(schedule, stage, schedule.state.stage(name).stage.outputs):
            used |= set().union(*map(free_vars, r.indices))
    for name in producers:
        partial = block_sums(schedule, name)
        if partial is not None:
            blocks = [axis.name for axis in schedule.state.stage(name).stage.reduce_axes]
            schedule.compute_at(partial, name, blocks[-1])
    axes = [axis.name for axis in stage.stage.axes]
    rows = [name for name in axes if name in used]
    if not rows:
        return  # all outputs share them: one work-item computes everything
    schedule.reorder(stage.name, *rows, *(name for name in axes if name not in used))
    last = _bind(schedule, stage, rows)
    for name in producers:
        schedule.compute_at(name, stage.name, last)
