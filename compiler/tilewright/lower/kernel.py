"""From a group and its schedule to the loop program that code generators get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.errors import CodegenError, LoweringError
from tilewright.expr import reads_of
from tilewright.graph.ir import Node
from tilewright.loops.ir import Kernel
from tilewright.loops.partition import Partition
from tilewright.loops.scratch import HoistScratch
from tilewright.loops.unroll import Unroll
from tilewright.loops.vectorize import legalize_vectors
from tilewright.lower.group import make_group
from tilewright.lower.target import Choice, Group, Target
from tilewright.ops.operator import operator_of
from tilewright.program.callee import Callee
from tilewright.schedule.lower import lower_schedule
from tilewright.tensor.ir import Reduce, Stage, Tensor, in_step, stages_of


@dataclass(frozen=True)
class Lowered:
    """A kernel, and for `inspect` its template, its schedule and where that came from."""

    callee: Callee
    notes: Mapping[str, str]


def lower_node(node: Node, target: Target) -> Lowered:
    """The kernel of a primitive or Fused node, with its code where the target makes code for single kernels.

    Raises LoweringError and CodegenError naming the node.
    """
    try:
        kernel, notes = _loop_program(node) or _scheduled(node, target)
        callee = Callee.named_by_loops(kernel)
        code = target.compile_kernel(callee)
    except (LoweringError, CodegenError) as error:
        raise type(error)(f"node '{node.name}': {error}") from error
    return Lowered(replace(callee, code=code) if code else callee, notes)


def _loop_program(node: Node) -> tuple[Kernel, dict[str, str]] | None:
    """For an operator that is declared by loops; None for others."""
    loops = None if node.op == "Fused" else operator_of(node).loops
    if loops is None:
        return None
    types = [None if value is None else value.type for value in node.inputs]
    kernel = finish_kernel(loops(types, node.attrs, [value.type for value in node.outputs]))
    return kernel, {"template": "loop program", "schedule": "", "source": "operator"}


def _scheduled(node: Node, target: Target) -> tuple[Kernel, dict[str, str]]:
    group = make_group(node)
    choice = target.schedule(group)
    notes = {"template": choice.template, "schedule": str(choice.schedule), "source": choice.source}
    return lower_group(group, choice), notes | {"knobs": choice.knobs}


def lower_group(group: Group, choice: Choice) -> Kernel:
    """The kernel of a group, named by operators."""
    inputs = [(t, type.storage) for t, type in zip(group.inputs, group.input_types, strict=True)]
    outputs = [type.storage for type in group.output_types]
    kernel = lower_schedule(choice.schedule, inputs, outputs)
    return finish_kernel(replace(kernel, name=group.name[:40], inplace=_inplace(group)))


def finish_kernel(kernel: Kernel) -> Kernel:
    """The loop passes in their order."""
    kernel = Partition().run(kernel)
    kernel = Unroll().run(kernel)
    return HoistScratch().run(legalize_vectors(kernel))


def _inplace(group: Group) -> tuple[tuple[int, int], ...]:
    """(output, input) parameters that may share memory: equal layout, and every element is read for itself
    only.
    """
    if len(group.outputs) != 1:
        return ()
    stages = stages_of(group.outputs)
    pairs = []
    for position, (tensor, type) in enumerate(zip(group.inputs, group.input_types, strict=True)):
        same = type == group.output_types[0] and not type.storage.has_halo
        if same and _read_in_step(tensor, stages):
            pairs.append((len(group.inputs), position))
    return tuple(pairs)


def _read_in_step(tensor: Tensor, stages: list[Stage]) -> bool:
    """Whether the tensor, and all that is computed from it, is read at the reader's own index only, by stages
    that do not reduce. stages: producers before consumers.
    """
    derived = {tensor}
    for stage in stages:
        bodies = [v for body in stage.bodies for v in (body.values if isinstance(body, Reduce) else [body])]
        reads = [r for body in bodies for r in reads_of(body) if r.source in derived]
        if not reads:
            continue
        if stage.reduce_axes or not all(in_step(r, stage) for r in reads):
            return False
        derived.update(stage.outputs)
    return True
