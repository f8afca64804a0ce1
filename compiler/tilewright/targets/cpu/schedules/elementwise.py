"""Template for groups without a reduction: element-wise chains, transposes, packs, concatenations.

for axes in the order in which the result lies in memory (parallel outermost):
  vectors along the contiguous axis: result = body
"""

from __future__ import annotations

from tilewright.expr import Binary, Const, Expr, Read, Var, children, free_vars
from tilewright.loops.affine import Bounds, linear
from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.schedule.lower import inlined_bodies
from tilewright.schedule.schedule import Schedule
from tilewright.targets.cpu.schedules.common import (
    axis,
    inline_elementwise,
    memory_order,
    place,
    run_parallel,
    work,
)
from tilewright.tensor.ir import stages_of

MAX_VECTORS = 4
MAX_MODULUS = 4  # turns of a loop that are written out because its remainder decides what is read


def applies(group: Group) -> bool:
    """No stage reduces."""
    return not any(stage.reduce_axes for stage in stages_of(group.outputs))


def schedule(group: Group, machine: Machine) -> Choice:
    """Every output, and every costly value that is read twice, is a loop nest over the inlined producers."""
    s = Schedule(group.outputs)
    inline_elementwise(s, keep=set())
    shape = group.outputs[0].shape
    order = memory_order(group)
    turned = turned_axis(s, group, order)
    if turned is not None:
        _transposition(s, group, order, turned, machine)
        return Choice("transposition", s)
    for name, state in s.state.stages.items():
        if state.attach.how == "root":
            own = tuple(a.extent for a in state.stage.axes)  # what is shared may have fewer axes than results
            _nest(s, name, own, order if own == shape else [*range(len(own))], machine, work(group))
    return Choice("elementwise", s)


def turned_axis(s: Schedule, group: Group, order: list[int]) -> int | None:
    """The axis along which a plain copy reads contiguously, where it does not write along it too."""
    shape, result = group.outputs[0].shape, group.outputs[0].stage
    ranges = Bounds({a.name: (0, a.extent - 1) for a in result.axes})
    body = inlined_bodies(s, result.name)[0]
    if len(group.outputs) != 1 or len(group.inputs) != 1 or not isinstance(body, Read):
        return None  # a choice that is always the same is none of a plain copy, and stays what it is
    source = place(group.input_types[0], body.indices, ranges)
    target = place(group.output_types[0], [a.var for a in result.axes], ranges)
    last = result.axes[order[-1]].var if order else None
    if last is None or target.terms.get(last) != 1 or not source.terms.get(last):
        return None  # blocks of another axis lie innermost, or what is read stays the same
    along = [p for p, a in enumerate(result.axes) if source.terms.get(a.var) == 1 and shape[p] > 1]
    moving = {last.name, *(result.axes[p].name for p in along[:1])}
    if any(not isinstance(atom, Var) and free_vars(atom) & moving for atom in (*source.terms, *target.terms)):
        return None
    return along[0] if along and along[0] != order[-1] and shape[order[-1]] > 1 else None


def _transposition(s: Schedule, group: Group, order: list[int], turned: int, machine: Machine) -> None:
    """Squares of the two axes, which the code generator turns in registers."""
    result = group.outputs[0].stage.name
    shape, lanes = group.outputs[0].shape, machine.lanes(32)
    block, lane = s.split(result, axis(result, order[-1]), lanes)
    band, row = s.split(result, axis(result, turned), lanes)
    outer = [band if p == turned else axis(result, p) for p in order[:-1]]
    s.reorder(result, *outer, block, row, lane)
    s.vectorize(result, lane)
    s.tensorize(result, row, "transpose")
    extents = {axis(result, p): shape[p] for p in order[:-1] if p != turned}
    extents |= {band: -(-shape[turned] // lanes), block: -(-shape[order[-1]] // lanes)}
    run_parallel(s, result, extents, [*outer, block], work(group))


def _nest(
    s: Schedule, result: str, shape: tuple[int, ...], order: list[int], machine: Machine, size: int
) -> None:
    if not order:
        return
    bits = max(8, s.state.stage(result).stage.dtypes[0].bits)
    lanes = machine.lanes(max(32, bits))
    outer = [axis(result, p) for p in order[:-1]]
    extents = {axis(result, p): shape[p] for p in order[:-1]}
    inner = _split_by_moduli(s, result, outer, extents)
    if shape[order[-1]] > 1:
        vectors = max(1, min(MAX_VECTORS, shape[order[-1]] // lanes))
        block, within = s.split(result, axis(result, order[-1]), lanes * vectors)
        vector, lane = s.split(result, within, lanes)
        extents[block] = -(-shape[order[-1]] // (lanes * vectors))
        s.reorder(result, *outer, *inner, block, vector, lane)
        s.unroll(result, vector)
        s.vectorize(result, lane)
        if not inner:
            outer.append(block)
    elif outer:
        s.reorder(result, *outer, *inner)
    for name in inner:
        s.unroll(result, name)
    run_parallel(s, result, extents, outer, size)


def _split_by_moduli(s: Schedule, result: str, outer: list[str], extents: dict[str, int]) -> list[str]:
    """Split loops whose index is taken modulo a small number by that number, and name the inner loops.

    Written out, they decide what depends on the remainder: a pixel shuffle reads each phase without asking
    which.
    """
    ranges = Bounds({a.name: (0, a.extent - 1) for a in s.state.stage(result).stage.axes})
    bodies = [ranges.simplify(body) for body in inlined_bodies(s, result)]
    inner: list[str] = []
    for position, name in enumerate(outer):
        factor = max((_modulus(body, name) for body in bodies), default=1)
        if factor > 1:
            outer[position], turn = s.split(result, name, factor)
            extents[outer[position]] = -(-extents.pop(name) // factor)
            inner.append(turn)
    return inner


def _modulus(e: Expr, name: str) -> int:
    """The largest small number modulo which the variable is taken anywhere in the expression; 1 when it is
    not.
    """
    found = max((_modulus(part, name) for part in children(e)), default=1)
    if isinstance(e, Binary) and e.op == "mod" and isinstance(e.b, Const) and e.b.value <= MAX_MODULUS:
        taken = linear(e.a).terms.get(Var(name)) == 1
        return max(found, int(e.b.value)) if taken else found
    return found
