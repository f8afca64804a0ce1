"""What the CPU templates share: bringing a group into the form accumulator -> result, axes, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.expr import Call, Expr, children, reads_of
from tilewright.loops.affine import Bounds, Linear, linear
from tilewright.loops.size import gathers
from tilewright.lower.target import Group
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.codegen_dot import DOTS
from tilewright.tensor.ir import Reduce, Stage, Tensor, in_step, stages_of
from tilewright.types import TensorType

PRODUCTS = 64  # terms of one uninterrupted sum in a register tile, where blocks cost time
SHORT = 2  # steps of dot products in whose loop LLVM puts all loads in front, so that sums spill: written out
TERMS = 32  # terms of one uninterrupted sum elsewhere; values to be summed often have one sign
MAX_UNROLLED = 256  # multiply-adds written out in one tile; edges of planes multiply it by up to nine
PARALLEL_WORK = 32_768  # operations below which a fork-join costs more than it brings


@dataclass
class Frame:
    """A schedule under construction.

    result: stage of the output; sums: stage of the anchor's reduction; partial: stage of its blocks, or
    `sums` again; shared: element-wise stages between sums and result that are not computed again for each
    reader.
    """

    schedule: Schedule
    result: str
    sums: str
    partial: str
    shared: tuple[str, ...] = ()


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


def start(group: Group, block: int) -> Frame:
    """Inline what is element-wise, and let the sums live in registers, apart from the result.

    block: terms of one uninterrupted sum.
    """
    schedule = Schedule(group.outputs)
    result = group.outputs[0].stage.name
    shared = inline_elementwise(schedule, keep={group.anchor.stage.name})
    if group.anchor.stage is group.outputs[0].stage:
        sums = schedule.cache_write(result, "register")
    else:
        sums = group.anchor.stage.name
        schedule.set_scope(sums, "register")
    partial = block_sums(schedule, sums, block)
    schedule.set_scope(partial, "register")
    return Frame(schedule, result, sums, partial, shared)


def inline_elementwise(schedule: Schedule, keep: set[str]) -> tuple[str, ...]:
    """Inline every stage that does not reduce, unless costly values would be computed several times: the
    names of those.
    """
    shared = []
    for name, state in schedule.state.stages.items():
        body = state.stage.bodies[0]
        if name in keep or name in schedule.state.outputs or isinstance(body, Reduce):
            continue
        if len(schedule.state.consumers(name)) > 1 and _is_costly(body):
            shared.append(name)
            continue
        schedule.compute_inline(name)
    return tuple(shared)


def _is_costly(e: Expr) -> bool:
    return isinstance(e, Call) or any(_is_costly(part) for part in children(e))


def block_sums(schedule: Schedule, sums: str, block: int) -> str:
    """Split long sums into blocks of at most `block` terms, for accuracy: the error of a sum grows with its
    length.

    Returns the stage that sums a block; `sums` then adds the blocks up. A short sum is left as it is.
    """
    stage = schedule.state.stage(sums).stage
    body = stage.bodies[0]
    reduced = stage.reduce_axes
    terms = prod(a.extent for a in reduced)
    if (
        terms <= block
        or not isinstance(body, Reduce)
        or body.reducer.name != "sum"
        or not body.dtype.is_float
    ):
        return sums
    outer: list[str] = []
    inner = terms
    for chunked in reduced:
        inner //= chunked.extent
        if inner <= block:
            break
        outer.append(chunked.name)  # one turn of it is too long for a block
    limit = max(1, block // inner)
    even = next(n for n in range(min(limit, chunked.extent), 0, -1) if chunked.extent % n == 0)
    factor = even if even * 2 >= limit else -(-chunked.extent // -(-chunked.extent // limit))
    return schedule.rfactor(sums, outer, chunked.name, factor)


def axis(stage: str, position: int) -> str:
    """Name of a data axis."""
    return f"{stage}.i{position}"


def tile_sums(frame: Frame, rank: int, contiguous: int, lanes: int, unroll_terms: bool = False) -> None:
    """Loops of the sums inside a tile: terms outermost, the tile written out, lanes along the contiguous
    axis.

    Blocks are summed in registers inside the loop over blocks.
    """
    s = frame.schedule
    for stage in dict.fromkeys((frame.sums, frame.partial)):
        reduced = reduce_axes(s, stage)
        blocks = (
            len(s.state.stage(stage).stage.axes) - rank
        )  # a partial stage has axes for its blocks in front
        _write_out(s, stage, blocks + contiguous, lanes, reduced)
        for name in reduced if unroll_terms else ():
            s.unroll(stage, name)
    if frame.partial != frame.sums:
        s.compute_at(frame.partial, frame.sums, reduce_axes(s, frame.sums)[-1])


def tile_dots(frame: Frame, contiguous: int, lanes: int, intrinsic: str) -> None:
    """As `tile_sums` where both operands hold the terms of a dot product side by side; sums are not in
    blocks: what rounding the operands to bf16 costs is more, and sums of integers are exact.
    """
    s = frame.schedule
    *outer, last = reduce_axes(s, frame.sums)
    terms = DOTS[intrinsic].terms
    count = s.state.stage(frame.sums).stage.reduce_axes[-1].extent // terms
    steps, _ = s.split(frame.sums, last, terms)
    lane = _write_out(s, frame.sums, contiguous, lanes, [*outer, steps])
    s.tensorize(frame.sums, lane, intrinsic)
    if count <= SHORT:
        s.unroll(frame.sums, steps)


def share_values(frame: Frame, at: str, contiguous: int, lanes: int) -> None:
    """Computes the shared stages of a tile of results in registers, inside loop `at` of the result."""
    s = frame.schedule
    for stage in frame.shared:
        s.set_scope(stage, "register")
        s.compute_at(stage, frame.result, at)
        _write_out(s, stage, contiguous, lanes, [])


def _write_out(s: Schedule, stage: str, contiguous: int, lanes: int, outer: list[str]) -> str:
    """The data loops of a stage written out inside the `outer` loops, lanes along the contiguous axis; the
    loop over lanes.
    """
    names = [a.name for a in s.state.stage(stage).stage.axes]
    vector, lane = s.split(stage, names[contiguous], lanes)
    data = [name for position, name in enumerate(names) if position != contiguous]
    s.reorder(stage, *outer, *data, vector, lane)
    for name in (*data, vector):
        s.unroll(stage, name)
    s.vectorize(stage, lane)
    return lane


def reduce_axes(schedule: Schedule, stage: str) -> list[str]:
    return [leaf.name for leaf in schedule.state.stage(stage).leaves if leaf.kind == "reduce"]


def work(group: Group) -> int:
    """Operations of the group, roughly: results times the length of its longest reduction."""
    lengths = (prod(a.extent for a in stage.reduce_axes) for stage in stages_of(group.outputs))
    return prod(group.outputs[0].shape) * max(lengths)


def memory_order(group: Group) -> list[int]:
    """Axes of the result from outermost to innermost in memory; axes of extent 1 come first."""
    shape = group.outputs[0].shape
    terms = group.output_types[0].storage.terms(len(shape))
    order = list(dict.fromkeys(axis for axis, _, _ in terms))
    return sorted(order, key=lambda axis: shape[axis] > 1)


def described(**knobs: int | str) -> str:
    """Knobs as `name=value`, separated by spaces, for `Choice`."""
    return " ".join(f"{name}={value}" for name, value in knobs.items())


def place(type: TensorType, indices: Sequence[Expr], ranges: Bounds) -> Linear:
    """The position in memory of an element, counted in elements."""
    flat = Linear()
    for index, extent in zip(type.storage.index(indices), type.physical_shape, strict=True):
        flat = flat.times(extent).plus(linear(ranges.simplify(index)))
    return flat


def run_parallel(
    schedule: Schedule, stage: str, extents: dict[str, int], order: list[str], operations: int
) -> str:
    """Run one of the loops in `order` in parallel, where the work pays for that; its name, or `none`.

    The outermost that shares its turns evenly, else the longest.
    """
    longest = max(order, key=lambda name: extents[name], default=None)
    chosen = next((name for name in order if extents[name] >= 8), longest)
    if chosen is None or extents[chosen] < 2 or operations < PARALLEL_WORK:
        return "none"
    schedule.parallel(stage, chosen)
    return chosen


def term_size(group: Group, contiguous: int, lanes: int) -> int:
    """Instructions of one vector of terms, roughly: more where it is gathered lane by lane."""
    stage = group.anchor.stage
    lane = stage.axes[contiguous].name
    values = [v for body in stage.bodies if isinstance(body, Reduce) for v in body.values]
    return max(1, lanes // 2 * sum(gathers(value, lane) for value in values))
