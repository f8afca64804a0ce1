"""Schedule primitives that change what stages compute, or add stages: see `primitives.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tilewright.errors import ScheduleError
from tilewright.expr import Expr, Read, add, const, floordiv, mod, mul, select, substitute
from tilewright.loops.ir import LoopKind
from tilewright.schedule.primitives import Primitive
from tilewright.schedule.state import StageState, State, is_reduction, new_leaves, redirect, rename_axes
from tilewright.tensor.ir import Axis, Reduce, Stage, Tensor, identity_of, map_reads


@dataclass(frozen=True)
class Flatten(Primitive):
    """Two neighbouring data axes of the expression become one, on which rows start `pitch` elements apart.

    for i in 0..n                        ->   for p in 0..(n - 1) * pitch + m
      for j in 0..m: t[i, j] = f(i, j)          t[p] = f(p // pitch, p % pitch)
    y[..] = t[a, b]                           y[..] = t[a * pitch + b]

    Where a row of an operand in memory is `pitch` steps long, neighbours along p have one distance, from row
    to row too. Nobody reads the elements between rows. They are computed from the memory that their index
    comes to; lowering proves that this is memory of the operand.
    """

    keyword: ClassVar[str] = "flatten"
    outer: str
    inner: str
    pitch: int

    @property
    def name(self) -> str:
        return f"{self.outer}*{self.inner}"

    def apply(self, state: State) -> None:
        target = state.stage(self.stage)
        stage, readers = target.stage, state.consumers(self.stage)
        names = [axis.name for axis in stage.axes]
        if self.stage in state.outputs:
            raise ScheduleError(f"flatten: '{self.stage}' is an output, which has no room between its rows")
        if target.relations or target.padded or any(leaf.loop != LoopKind.SERIAL for leaf in target.leaves):
            raise ScheduleError(f"flatten: must come before other primitives of '{self.stage}'")
        at = names.index(self.outer) if self.outer in names else len(names)
        if names[at + 1 : at + 2] != [self.inner] or self.pitch < stage.axes[at + 1].extent:
            raise ScheduleError(
                f"flatten: expected two neighbouring data axes of '{self.stage}' ({', '.join(names)}) and a "
                f"pitch that holds a row, found {self.outer}, {self.inner} and {self.pitch}"
            )
        rows, row = stage.axes[at : at + 2]
        flat = Axis(self.name, (rows.extent - 1) * self.pitch + row.extent)
        pitch = const(self.pitch)
        bindings = {rows.name: floordiv(flat.var, pitch), row.name: mod(flat.var, pitch)}
        kept = {axis.name: axis for axis in stage.reduce_axes}
        stage.bodies = tuple(_rebind(body, bindings, kept) for body in stage.bodies)
        stage.axes = (*stage.axes[:at], flat, *stage.axes[at + 2 :])

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Read) or e.source not in stage.outputs:
                return None
            place = add(mul(e.indices[at], pitch), e.indices[at + 1])
            return Read(e.source, (*e.indices[:at], place, *e.indices[at + 2 :]), e.dtype)

        for reader in readers:
            reader.stage.bodies = tuple(map_reads(body, rule) for body in reader.stage.bodies)
        target.leaves = new_leaves(stage)
        target.flattened = True


@dataclass(frozen=True)
class CacheWrite(Primitive):
    """A new stage `NAME.SCOPE` computes the values in a faster memory; the stage itself only copies them.

    c[i] = f(i)     ->    c.register[i] = f(i);  c[i] = c.register[i]
    """

    keyword: ClassVar[str] = "cache_write"
    scope: str

    @property
    def name(self) -> str:
        return f"{self.stage}.{self.scope}"

    def apply(self, state: State) -> None:
        target = state.stage(self.stage)
        if target.relations or any(leaf.loop != LoopKind.SERIAL for leaf in target.leaves):
            raise ScheduleError(f"cache_write: must come before other primitives of '{self.stage}'")
        stage = target.stage
        renamed = rename_axes(self.name, (*stage.axes, *stage.reduce_axes))
        cached = Stage(self.name, tuple(renamed[a.name] for a in stage.axes), (), stage.dtypes)
        cached.outputs = tuple(Tensor(cached, i) for i in range(len(stage.dtypes)))
        bindings: dict[str, Expr] = {old: axis.var for old, axis in renamed.items()}
        cached.bodies = tuple(_rebind(body, bindings, renamed) for body in stage.bodies)
        state.insert_before(
            self.stage, StageState(cached, new_leaves(cached), scope=self.scope, flattened=target.flattened)
        )
        stage.bodies = tuple(cached.outputs[i][tuple(stage.axes)] for i in range(len(stage.dtypes)))
        target.leaves = new_leaves(stage)


@dataclass(frozen=True)
class CacheRead(Primitive):
    """A new stage `TENSOR.SCOPE` holds a copy of what the readers read; they read the copy.

    c[i] = a[i] + 1     ->    a.shared[i] = a[i];  c[i] = a.shared[i] + 1
    """

    keyword: ClassVar[str] = "cache_read"
    scope: str
    readers: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.stage}.{self.scope}"

    def apply(self, state: State) -> None:
        if self.stage in state.placeholders:
            tensor = state.placeholders[self.stage]
        else:
            outputs = state.stage(self.stage).stage.outputs
            if len(outputs) != 1:
                raise ScheduleError(
                    f"cache_read: '{self.stage}' has {len(outputs)} outputs; name one with one output"
                )
            tensor = outputs[0]
        reading = {s.name for s in state.consumers(self.stage)}
        missing = [name for name in self.readers if name not in reading]
        if missing or not self.readers:
            raise ScheduleError(f"cache_read: {', '.join(missing) or 'nobody'} does not read '{self.stage}'")
        renamed = rename_axes(self.name, tensor.stage.axes)
        axes = tuple(renamed[a.name] for a in tensor.stage.axes)
        copy = Stage(self.name, axes, (tensor[axes],), (tensor.dtype,))
        copy.outputs = (Tensor(copy),)
        first = next(name for name in state.stages if name in self.readers)
        state.insert_before(first, StageState(copy, new_leaves(copy), scope=self.scope))
        for name in self.readers:
            stage = state.stage(name).stage
            stage.bodies = tuple(
                redirect(body, lambda t: copy.outputs[0] if t is tensor else t) for body in stage.bodies
            )


@dataclass(frozen=True)
class Rfactor(Primitive):
    """Partial sums: a new stage `NAME.rf` sums blocks of the terms, the stage itself sums the blocks.

    The axes `outer` and the blocks of `factor` turns of `axis` become data axes of the new stage, in front.
    Sums of blocks are more accurate than one long sum, and blocks can be computed apart.

        c = sum(f(k) for k in 0..n)   ->   c.rf[b] = sum(f(b * factor + k) for k in 0..factor)
                                           c = sum(c.rf[b] for b in 0..ceil(n / factor))
    """

    keyword: ClassVar[str] = "rfactor"
    outer: tuple[str, ...]
    axis: str
    factor: int

    @property
    def name(self) -> str:
        return f"{self.stage}.rf"

    def apply(self, state: State) -> None:
        target = state.stage(self.stage)
        stage = target.stage
        if not is_reduction(target) or len(stage.bodies) != 1:
            raise ScheduleError(f"rfactor: '{self.stage}' must be a reduction of one value")
        if target.relations or any(leaf.loop != LoopKind.SERIAL for leaf in target.leaves):
            raise ScheduleError(f"rfactor: must come before other primitives of '{self.stage}'")
        by_name = {a.name: a for a in stage.reduce_axes}
        unknown = [name for name in (*self.outer, self.axis) if name not in by_name]
        if unknown or self.axis in self.outer or self.factor < 1:
            raise ScheduleError(
                f"rfactor: expected reduce axes of '{self.stage}' ({', '.join(by_name)}) "
                f"and a positive factor, found {', '.join((*self.outer, self.axis))} and {self.factor}"
            )
        body = stage.bodies[0]
        assert isinstance(body, Reduce)
        blocks = [by_name[name] for name in self.outer]
        blocked = by_name[self.axis]
        count = -(-blocked.extent // self.factor)
        chunk = Axis(f"{blocked.name}.block", count, "reduce")
        partial = self._partial(stage, body, blocks, blocked, count)
        state.insert_before(self.stage, StageState(partial, new_leaves(partial), flattened=target.flattened))
        total = partial.outputs[0][(*blocks, chunk, *stage.axes)]
        stage.bodies = (Reduce(body.reducer, (total,), (*blocks, chunk), 0, body.dtype),)
        target.leaves = new_leaves(stage)

    def _partial(self, stage: Stage, body: Reduce, blocks: list[Axis], blocked: Axis, count: int) -> Stage:
        """The stage of the blocks' sums: axes are blocks, block of `axis`, then those of the stage."""
        kept = [a for a in body.axes if a not in blocks and a != blocked]
        first = len(stage.axes)  # a stage factored twice has axes b2, b3, ...
        leading = [Axis(f"{self.name}.b{i}", a.extent) for i, a in enumerate([*blocks, blocked], first)]
        leading[-1] = Axis(leading[-1].name, count)
        data = rename_axes(self.name, stage.axes)
        reduced = rename_axes(self.name, [*kept, blocked])
        inner = Axis(reduced[blocked.name].name, min(self.factor, blocked.extent), "reduce")
        position = leading[-1].var * self.factor + inner.var
        bindings: dict[str, Expr] = {old: axis.var for old, axis in (data | reduced).items()}
        bindings |= {a.name: axis.var for a, axis in zip(blocks, leading, strict=False)}
        bindings[blocked.name] = position
        value = substitute(body.values[0], bindings)
        if blocked.extent % inner.extent:
            value = select(position < blocked.extent, value, identity_of(body))
        axes = (*leading, *(data[a.name] for a in stage.axes))
        partial = Stage(self.name, axes, (), stage.dtypes)
        partial.outputs = (Tensor(partial),)
        order = tuple(inner if a == blocked else reduced[a.name] for a in body.axes if a not in blocks)
        partial.bodies = (Reduce(body.reducer, (value,), order, 0, body.dtype),)
        return partial


def _rebind(body: Expr, bindings: Mapping[str, Expr], renamed: Mapping[str, Axis]) -> Expr:
    if isinstance(body, Reduce):
        values = tuple(substitute(v, bindings) for v in body.values)
        axes = tuple(renamed[a.name] for a in body.axes)
        return Reduce(body.reducer, values, axes, body.index, body.dtype)
    return substitute(body, bindings)
