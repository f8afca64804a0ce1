"""The static memory plan: offsets for every buffer, fixed at compile time.

Placing buffers with known lifetimes is bin packing with time (NP-hard). Several greedy orders are tried;
each puts a buffer into a gap between those that live at the same time, and the smallest arena wins. While
it is above the lower bound, the buffers that stick out at the top are moved forward in the order, and
placing is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.errors import VerifyError
from tilewright.program.ir import Alloc, Branch, Dealloc, Instruction, Loop, Memory, Program, Space
from tilewright.program.plan import Plan
from tilewright.program.rewrite import all_memories

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
ATTEMPTS = 64  # how often the order is mended


@dataclass(frozen=True)
class Interval:
    """A buffer of `bytes` that lives from instruction `start` until before instruction `end`."""

    name: str
    bytes: int
    start: int
    end: int

    def meets(self, other: Interval) -> bool:
        """Whether both are alive at one time."""
        return self.start < other.end and other.start < self.end


def aligned(size: int) -> int:
    """The size rounded up to whole alignment units."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(program: Program) -> Plan:
    """Offsets of all buffers of a program with placed lifetimes.

    Raises VerifyError when these do not nest.
    """
    memories = all_memories(program)
    offsets: dict[str, int] = {}
    ends = dict.fromkeys(Space, 0)
    for memory in memories.values():
        if memory.space != Space.ACTIVATION:
            offsets[memory.name] = ends[memory.space]
            ends[memory.space] += aligned(memory.bytes)
    intervals = lifetimes(program.body)
    placed = place(intervals)
    return Plan(
        offsets | placed,
        arena_bytes=arena_bytes(intervals, placed),
        mutable_bytes=ends[Space.MUTABLE],
        constant_bytes=ends[Space.CONSTANT],
        sum_bytes=sum(interval.bytes for interval in intervals),
        lower_bound=lower_bound(intervals),
    )


def lifetimes(body: tuple[Instruction, ...]) -> list[Interval]:
    """Intervals of all Allocs, aligned sizes. What is alive around a loop is alive during all of it."""
    found: list[Interval] = []
    _scan(body, 0, {}, found)
    return found


def _scan(body: tuple[Instruction, ...], time: int, outer: dict[str, int], found: list[Interval]) -> int:
    begun: dict[str, int] = {}
    for instruction in body:
        time += 1
        if isinstance(instruction, Alloc):
            if instruction.memory.name in begun or instruction.memory.name in outer:
                raise VerifyError(f"buffer '{instruction.memory.name}' is allocated while it is alive")
            begun[instruction.memory.name] = time
        elif isinstance(instruction, Dealloc):
            found.append(_ended(instruction.memory, begun, time))
        elif isinstance(instruction, Loop):
            time = _scan(instruction.body, time, outer | begun, found)
        elif isinstance(instruction, Branch):
            time = _scan(instruction.then, time, outer | begun, found)
            time = _scan(instruction.orelse, time, outer | begun, found)
    if begun:
        raise VerifyError(f"buffers {', '.join(sorted(begun))} are never deallocated")
    return time


def _ended(memory: Memory, begun: dict[str, int], time: int) -> Interval:
    if memory.name not in begun:
        raise VerifyError(f"buffer '{memory.name}' is deallocated where it was not allocated")
    return Interval(memory.name, aligned(memory.bytes), begun.pop(memory.name), time)


def lower_bound(intervals: Iterable[Interval]) -> int:
    """Most bytes alive at one time: no plan can need less."""
    changes: dict[int, int] = {}
    for interval in intervals:
        changes[interval.start] = changes.get(interval.start, 0) + interval.bytes
        changes[interval.end] = changes.get(interval.end, 0) - interval.bytes
    alive = peak = 0
    for time in sorted(changes):
        alive += changes[time]
        peak = max(peak, alive)
    return peak


def arena_bytes(intervals: Iterable[Interval], offsets: dict[str, int]) -> int:
    """Size of the arena that holds all intervals at these offsets."""
    return max((offsets[i.name] + i.bytes for i in intervals), default=0)


_ORDERS: tuple[Callable[[Interval], tuple[int, ...]], ...] = (
    lambda i: (-i.bytes, i.start),  # large first
    lambda i: (-i.bytes * (i.end - i.start), i.start),  # large and long-lived first
    lambda i: (i.start - i.end, -i.bytes),  # long-lived first
    lambda i: (i.start, -i.bytes),  # as an allocator at run time would see them
    lambda i: (-i.end, -i.bytes),  # the same, backwards
)


def place(intervals: Sequence[Interval]) -> dict[str, int]:
    """Offsets in bytes by name, such that intervals that meet do not overlap in memory."""
    neighbours = _neighbours(intervals)
    bound = lower_bound(intervals)
    best: dict[str, int] | None = None
    for rule in _ORDERS:
        for fits in (_best_gap, _first_gap):
            found = _mend(sorted(intervals, key=rule), neighbours, fits, bound)
            if best is None or arena_bytes(intervals, found) < arena_bytes(intervals, best):
                best = found
            if arena_bytes(intervals, best) == bound:
                return best
    return best or {}


Fit = Callable[[Sequence[tuple[int, int]], int], int]


def _mend(
    order: list[Interval], neighbours: dict[str, list[Interval]], fits: Fit, bound: int
) -> dict[str, int]:
    """Greedy placing in the given order; buffers at the top move to the front and placing is tried again."""
    best = found = _greedy(order, neighbours, fits)
    peak = arena_bytes(order, best)
    for _ in range(ATTEMPTS):
        if peak == bound:
            break
        height = arena_bytes(order, found)
        top = {i.name for i in order if found[i.name] + i.bytes == height}
        reordered = [i for i in order if i.name in top] + [i for i in order if i.name not in top]
        if reordered == order:
            break
        order = reordered
        found = _greedy(order, neighbours, fits)
        if arena_bytes(order, found) < peak:
            best, peak = found, arena_bytes(order, found)
    return best


def _neighbours(intervals: Sequence[Interval]) -> dict[str, list[Interval]]:
    found: dict[str, list[Interval]] = {interval.name: [] for interval in intervals}
    alive: list[Interval] = []
    for interval in sorted(intervals, key=lambda i: i.start):
        alive = [other for other in alive if other.end > interval.start]
        for other in alive:
            if other.meets(interval):
                found[other.name].append(interval)
                found[interval.name].append(other)
        alive.append(interval)
    return found


def _greedy(order: Iterable[Interval], neighbours: dict[str, list[Interval]], fits: Fit) -> dict[str, int]:
    offsets: dict[str, int] = {}
    for interval in order:
        taken = sorted(
            (offsets[other.name], offsets[other.name] + other.bytes)
            for other in neighbours[interval.name]
            if other.name in offsets
        )
        offsets[interval.name] = fits(_gaps(taken), interval.bytes)
    return offsets


def _gaps(taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(offset, size) of the free ranges below and between; the last, above all, has size -1: without end."""
    gaps, end = [], 0
    for start, stop in taken:
        if start > end:
            gaps.append((end, start - end))
        end = max(end, stop)
    return [*gaps, (end, -1)]


def _best_gap(gaps: Sequence[tuple[int, int]], size: int) -> int:
    fitting = [(room, offset) for offset, room in gaps[:-1] if room >= size]
    return min(fitting)[1] if fitting else gaps[-1][0]


def _first_gap(gaps: Sequence[tuple[int, int]], size: int) -> int:
    return next((offset for offset, room in gaps[:-1] if room >= size), gaps[-1][0])
