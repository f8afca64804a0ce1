"""Writing the halo of a tensor, which lowering puts in front of the stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.errors import ScheduleError
from tilewright.expr import Expr, Var, add, const, mul
from tilewright.loops.ir import Buffer, For, LoopKind, Stmt, Store, seq
from tilewright.storage import Storage


def halo_fill(buffer: Buffer, storage: Storage) -> Stmt | None:
    """Loops that write the halo of a tensor in memory.

    Works a memory axis at a time: the slabs before and after the interior, over the interior of the axes
    before it and the whole of those after it, so that no element is written twice.
    """
    if not storage.has_halo:
        return None
    rank = len({axis for axis, _, _ in storage.terms(len(storage.halo))})
    margins = []
    for axis, divisor, modulus in storage.terms(rank):
        if modulus or divisor != 1:
            if storage.halo[axis] != (0, 0):
                raise ScheduleError(f"storage {storage}: a blocked axis cannot have a halo")
            margins.append((0, 0))
        else:
            margins.append(storage.halo[axis])
    slabs = []
    for at, (before, after) in enumerate(margins):
        for start, width in ((0, before), (buffer.shape[at] - after, after)):
            if width:
                slabs.append(_slab(buffer, margins, at, start, width, storage.fill))
    return seq(*slabs)


def _slab(
    buffer: Buffer, margins: Sequence[tuple[int, int]], at: int, start: int, width: int, fill: int
) -> Stmt:
    indices: list[Expr] = []
    loops: list[tuple[Var, int, LoopKind]] = []
    for axis, (extent, (before, after)) in enumerate(zip(buffer.shape, margins, strict=True)):
        first, count = (before, extent - before - after) if axis < at else (0, extent)
        if axis == at:
            first, count = start, width
        var = Var(f"{buffer.name}.halo{at}.{start}.{axis}")
        lanes = next((n for n in (16, 8, 4) if count % n == 0), 0) if axis == len(buffer.shape) - 1 else 0
        if lanes:
            lane = replace(var, name=f"{var.name}.lane")
            loops += [(var, count // lanes, LoopKind.SERIAL), (lane, lanes, LoopKind.VECTORIZED)]
            indices.append(add(add(mul(var, const(lanes)), lane), const(first)))
        else:
            loops.append((var, count, LoopKind.SERIAL))
            indices.append(add(var, const(first)))
    result: Stmt = Store(buffer, tuple(indices), const(fill, buffer.dtype))
    for var, count, kind in reversed(loops):
        result = For(var, const(count), result, kind)
    return result
