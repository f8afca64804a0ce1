"""A schedule: tensor expressions with the primitives applied to them, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from tilewright.errors import ParseError, ScheduleError
from tilewright.schedule import primitives as p
from tilewright.schedule.stage_primitives import CacheRead, CacheWrite, Flatten, Rfactor
from tilewright.schedule.state import State
from tilewright.tensor.ir import Tensor

Where = Tensor | str

PRIMITIVES: dict[str, type[p.Primitive]] = {
    kind.keyword: kind
    for kind in (
        *(p.Split, p.Overlap, p.Fuse, p.Reorder, p.Unroll, p.Vectorize, p.Parallel, p.Bind, p.ComputeInline),
        *(p.ComputeAt, p.SetScope, p.Pad, Flatten, CacheWrite, CacheRead, Rfactor, p.Tensorize),
    )
}


class Schedule:
    """HOW the outputs are computed. Starts with every stage at root and plain loops; methods append
    primitives.

        s = Schedule([c])
        outer, inner = s.split(c, "c.i1", 16)
        s.vectorize(c, inner)

    A tensor or the name of its stage says which stage is meant.
    """

    def __init__(self, outputs: Sequence[Tensor], steps: Iterable[p.Primitive] = ()) -> None:
        self.outputs = tuple(outputs)
        self.state = State.start(self.outputs)
        self.steps: tuple[p.Primitive, ...] = ()
        for step in steps:
            self.apply(step)

    def apply(self, step: p.Primitive) -> None:
        """Apply one primitive. Raises ScheduleError when it is not legal here."""
        step.apply(self.state)
        self.steps += (step,)

    def axes(self, where: Where) -> list[str]:
        """Names of a stage's loops now, outermost first."""
        return [leaf.name for leaf in self.state.stage(_name(where)).leaves]

    def split(self, where: Where, axis: str, factor: int) -> tuple[str, str]:
        step = p.Split(_name(where), axis, factor)
        self.apply(step)
        return step.names

    def overlap(self, where: Where, axis: str, factor: int) -> tuple[str, str]:
        step = p.Overlap(_name(where), axis, factor)
        self.apply(step)
        return step.names

    def tile(self, where: Where, x: str, y: str, fx: int, fy: int) -> tuple[str, str, str, str]:
        """Split two neighbouring loops and bring the outer ones out: (x.o, y.o, x.i, y.i)."""
        xo, xi = self.split(where, x, fx)
        yo, yi = self.split(where, y, fy)
        self.reorder(where, xo, yo, xi, yi)
        return xo, yo, xi, yi

    def fuse(self, where: Where, *axes: str) -> str:
        """Fuse neighbouring loops, given outermost first."""
        if not axes:
            raise ScheduleError("fuse: name at least one loop")
        fused = axes[0]
        for axis in axes[1:]:
            step = p.Fuse(_name(where), fused, axis)
            self.apply(step)
            fused = step.name
        return fused

    def reorder(self, where: Where, *axes: str) -> None:
        self.apply(p.Reorder(_name(where), axes))

    def unroll(self, where: Where, axis: str) -> None:
        self.apply(p.Unroll(_name(where), axis))

    def vectorize(self, where: Where, axis: str) -> None:
        self.apply(p.Vectorize(_name(where), axis))

    def parallel(self, where: Where, axis: str) -> None:
        self.apply(p.Parallel(_name(where), axis))

    def bind(self, where: Where, axis: str, thread: str) -> None:
        self.apply(p.Bind(_name(where), axis, thread))

    def compute_inline(self, where: Where) -> None:
        self.apply(p.ComputeInline(_name(where)))

    def compute_at(self, where: Where, consumer: Where, axis: str) -> None:
        self.apply(p.ComputeAt(_name(where), _name(consumer), axis))

    def set_scope(self, where: Where, scope: str) -> None:
        self.apply(p.SetScope(_name(where), scope))

    def pad(self, where: Where, axis: str, factor: int) -> None:
        self.apply(p.Pad(_name(where), axis, factor))

    def flatten(self, where: Where, outer: str, inner: str, pitch: int) -> str:
        """Name of the new axis."""
        step = Flatten(_name(where), outer, inner, pitch)
        self.apply(step)
        return step.name

    def cache_write(self, where: Where, scope: str) -> str:
        """Name of the new stage."""
        step = CacheWrite(_name(where), scope)
        self.apply(step)
        return step.name

    def cache_read(self, where: Where, scope: str, readers: Sequence[Where]) -> str:
        """Name of the new stage."""
        step = CacheRead(_name(where), scope, tuple(_name(r) for r in readers))
        self.apply(step)
        return step.name

    def rfactor(self, where: Where, outer: Sequence[str], axis: str, factor: int) -> str:
        """Name of the new stage."""
        step = Rfactor(_name(where), tuple(outer), axis, factor)
        self.apply(step)
        return step.name

    def tensorize(self, where: Where, axis: str, intrinsic: str) -> None:
        self.apply(p.Tensorize(_name(where), axis, intrinsic))

    def __str__(self) -> str:
        return "\n".join(format_step(step) for step in self.steps)


def format_step(step: p.Primitive) -> str:
    """`keyword argument ...`; a tuple is joined with commas."""
    values = [getattr(step, f.name) for f in fields(step)]
    words = [(",".join(v) or "-") if isinstance(v, tuple) else str(v) for v in values]
    return " ".join([step.keyword, *words])


def parse_steps(text: str) -> tuple[p.Primitive, ...]:
    """Inverse of printing a schedule. Raises ParseError naming the line."""
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        kind = PRIMITIVES.get(words[0])
        if kind is None:
            raise ParseError(f"schedule line {number}: unknown primitive '{words[0]}'")
        expected = fields(kind)
        if len(words) - 1 != len(expected):
            names = " ".join(f.name for f in expected)
            raise ParseError(f"schedule line {number}: expected '{kind.keyword} {names}', found '{line}'")
        values = [_parse_word(str(f.type), word) for f, word in zip(expected, words[1:], strict=True)]
        steps.append(kind(*values))  # type: ignore[arg-type]
    return tuple(steps)


def _parse_word(type_name: str, word: str) -> object:
    if type_name.startswith("tuple"):
        return tuple(word.split(",")) if word != "-" else ()
    return int(word) if type_name == "int" else word


def _name(where: Where) -> str:
    return where if isinstance(where, str) else where.stage.name
