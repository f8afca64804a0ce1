"""Which CPUs the process may use, and pinning it to as many as it has threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from tilewright.errors import UsageError

CPU_FOLDER = Path("/sys/devices/system/cpu")


def usable_cpus() -> list[int]:
    """The CPUs of the affinity mask; never the machine's total, which a container may not have."""
    return sorted(os.sched_getaffinity(0))


def checked_threads(threads: int | None) -> int:
    """The thread count to use; all usable CPUs when None. Raises UsageError when there are not that many."""
    usable = len(usable_cpus())
    if threads is None:
        return usable
    if threads < 1:
        raise UsageError(f"--threads {threads}: give at least 1")
    if threads > usable:
        raise UsageError(
            f"--threads {threads} on {usable} usable CPUs would measure the scheduler; give at most {usable} "
            f"(CPUs come from the affinity mask: see taskset -p)"
        )
    return threads


def chosen_cpus(usable: list[int], threads: int, siblings: dict[int, frozenset[int]]) -> list[int]:
    """As many CPUs as threads: one of each core first, high numbers first (CPU 0 serves interrupts)."""
    first: list[int] = []
    second: list[int] = []
    taken: set[int] = set()
    for cpu in sorted(usable, reverse=True):
        (second if cpu in taken else first).append(cpu)
        taken |= siblings.get(cpu, frozenset())
    return sorted((first + second)[:threads])


@dataclass(frozen=True)
class Affinity:
    """The CPUs that the process is pinned to, and those it could have used."""

    cpus: list[int]
    usable: list[int]


@contextmanager
def pinned(threads: int) -> Iterator[Affinity]:
    """Pin this process to one CPU per thread, and NumPy's BLAS to as many threads, for the time of the block.

    Enter before any engine starts its threads: they inherit the mask. Child processes inherit it too.
    """
    before = os.sched_getaffinity(0)
    usable = sorted(before)
    cpus = chosen_cpus(usable, threads, {cpu: _siblings(cpu) for cpu in usable})
    os.sched_setaffinity(0, cpus)
    try:
        with threadpool_limits(threads):
            yield Affinity(cpus, usable)
    finally:
        os.sched_setaffinity(0, before)


def _siblings(cpu: int) -> frozenset[int]:
    """The CPUs that share a physical core with this one, itself included; just itself when the system is
    silent.
    """
    path = CPU_FOLDER / f"cpu{cpu}/topology/thread_siblings_list"
    if not path.exists():
        return frozenset({cpu})
    return frozenset(cpu_list(path.read_text()))


def cpu_list(text: str) -> list[int]:
    """Read the kernel's notation for CPU sets: '0-2,5' is [0, 1, 2, 5]."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        cpus.extend(range(int(low), int(high or low) + 1))
    return cpus
