"""What the CPU templates share: bringing a group into the form accumulator -> result, axes, vectors."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.expr import Call, Expr, children, reads_of
from tilewright.lower.target import Group
from tilewright.schedule.schedule import Schedule
from tilewright.tensor.ir import Reduce, Stage, Tensor, in_step, stages_of

PARALLEL_WORK = 32_768  # operations below which a fork-join costs more than it brings


@dataclass
class Frame:
    """A schedule under construction. result: stage of the output; sums: stage of the anchor's reduction."""

    schedule: Schedule
    result: str
    sums: str


def one_result(group: Group) -> bool:
    """Whether the group has one output, and everything between anchor and output is element-wise on the
    same shape.
    """
    if len(group.outputs) != 1 or not group.anchor.stage.reduce_axes:
        return False
    stages = [s for s in stages_of(group.outputs) if not s.is_placeholder]
    others = [s for s in stages if s is not group.anchor.stage]
    if any(s.reduce_axes for s in others):
        return False
    return group.outputs[0].shape == group.anchor.shape and all(_in_step(s, group.anchor) for s in others)


def _in_step(stage: Stage, anchor: Tensor) -> bool:
    reads = [r for body in stage.bodies for r in reads_of(body)]
    produced = [r for r in reads if r.source is anchor or not r.source.stage.is_placeholder]
    return all(in_step(r, stage) for r in produced)


def start(group: Group) -> Frame:
    """Inline what is element-wise, and let the sums live in registers, apart from the result."""
    schedule = Schedule(group.outputs)
    result = group.outputs[0].stage.name
    inline_elementwise(schedule, keep={group.anchor.stage.name})
    if group.anchor.stage is group.outputs[0].stage:
        sums = schedule.cache_write(result, "register")
    else:
        sums = group.anchor.stage.name
        schedule.set_scope(sums, "register")
    return Frame(schedule, result, sums)


def inline_elementwise(schedule: Schedule, keep: set[str]) -> None:
    """Inline every stage that does not reduce, unless costly values would be computed several times."""
    for name, state in schedule.state.stages.items():
        body = state.stage.bodies[0]
        if name in keep or name in schedule.state.outputs or isinstance(body, Reduce):
            continue
        if len(schedule.state.consumers(name)) > 1 and _is_costly(body):
            continue
        schedule.compute_inline(name)


def _is_costly(e: Expr) -> bool:
    return isinstance(e, Call) or any(_is_costly(part) for part in children(e))


def axis(stage: str, position: int) -> str:
    """Name of a data axis."""
    return f"{stage}.i{position}"


def reduce_axes(schedule: Schedule, stage: str) -> list[str]:
    return [leaf.name for leaf in schedule.state.stage(stage).leaves if leaf.kind == "reduce"]


def work(group: Group) -> int:
    """Operations of the group, roughly: results times the length of its longest reduction."""
    longest = 1
    for stage in stages_of(group.outputs):
        count = 1
        for reduced in stage.reduce_axes:
            count *= reduced.extent
        longest = max(longest, count)
    size = 1
    for extent in group.outputs[0].shape:
        size *= extent
    return size * longest


def memory_order(group: Group) -> list[int]:
    """Axes of the result from outermost to innermost in memory; axes of extent 1 come first."""
    shape = group.outputs[0].shape
    terms = group.output_types[0].storage.terms(len(shape))
    order = list(dict.fromkeys(axis for axis, _, _ in terms))
    return sorted(order, key=lambda axis: shape[axis] > 1)


def parallel_axis(extents: dict[str, int], order: list[str]) -> str | None:
    """The outermost loop that shares its turns evenly; else the longest; None when all are single."""
    for name in order:
        if extents[name] >= 8:
            return name
    longest = max(order, key=lambda name: extents[name], default=None)
    return longest if longest is not None and extents[longest] > 1 else None
