"""Pinning, the thread limit, and noticing threads that run."""

import os
import threading

import pytest

from tilewright.errors import UsageError
from tilewright_bench.affinity import checked_threads, chosen_cpus, cpu_list, pinned, usable_cpus
from tilewright_bench.environment import describe
from tilewright_bench.quiet import wait_until_quiet


def test_threads_come_from_the_affinity_mask() -> None:
    usable = len(usable_cpus())
    assert checked_threads(None) == usable
    with pytest.raises(UsageError, match=f"give at most {usable}"):
        checked_threads(usable + 1)
    with pytest.raises(UsageError, match="at least 1"):
        checked_threads(0)


def test_one_cpu_of_each_core_first() -> None:
    siblings = {cpu: frozenset({cpu, (cpu + 4) % 8}) for cpu in range(8)}
    assert chosen_cpus(list(range(8)), 4, siblings) == [4, 5, 6, 7]
    assert chosen_cpus(list(range(8)), 5, siblings) == [3, 4, 5, 6, 7]
    assert chosen_cpus([0, 2, 4], 2, siblings) == [2, 4]


def test_cpu_list() -> None:
    assert cpu_list("0-2,5\n") == [0, 1, 2, 5]


def test_pinning_ends_with_the_block() -> None:
    before = os.sched_getaffinity(0)
    with pinned(1) as affinity:
        assert os.sched_getaffinity(0) == set(affinity.cpus)
        assert len(affinity.cpus) == 1
        environment = describe(affinity, 1)
    assert os.sched_getaffinity(0) == before
    assert environment["affinity"] == affinity.cpus
    assert environment["usable_cpus"] == sorted(before)
    assert {"commit", "dirty", "cpu", "flags", "governor", "turbo", "packages"} <= set(environment)


def test_a_running_thread_is_noticed_and_a_parked_one_is_not() -> None:
    parked, stop = threading.Event(), threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(10_000))

    waiting = threading.Thread(target=parked.wait)
    running = threading.Thread(target=spin)
    waiting.start()
    running.start()
    try:
        assert not wait_until_quiet(limit_s=0.05)
    finally:
        stop.set()
        running.join()
    try:
        assert wait_until_quiet(limit_s=30)
    finally:
        parked.set()
        waiting.join()
