"""Runs tasks in processes of their own: one that crashes or hangs loses its task, not the run."""

from __future__ import annotations

import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tilewright.cli.conformance.outcome import Outcome

# Forked, so that a worker that replaces a dead one need not load the suite again (8 s).
_CONTEXT = get_context("fork")
MEMORY_LIMIT = 16 << 30  # address space in bytes; a case that asks for more fails alone

Task = Callable[[int], Outcome]


class _Worker:
    """One process, and the task that it is at."""

    def __init__(self, task: Task, workers: Sequence[_Worker]) -> None:
        self.connection, other = _CONTEXT.Pipe()
        # Inherited ends of the parent's, which would keep a worker waiting when the parent is gone.
        foreign = [self.connection, *(w.connection for w in workers if not w.connection.closed)]
        arguments = (task, other, foreign)
        self.process: BaseProcess = _CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        other.close()
        self.index: int | None = None
        self.deadline = 0.0

    def give(self, index: int, limit: float) -> None:
        self.connection.send(index)
        self.index, self.deadline = index, time.monotonic() + limit

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def run_tasks(task: Task, indices: list[int], jobs: int, limit: float) -> Iterator[tuple[int, Outcome]]:
    """Outcomes as they come, in any order.

    task: called in a worker process; jobs: processes; limit: seconds for one task. A task whose process dies
    or does not answer in time has failed, and its process is replaced.
    """
    pending = list(reversed(indices))
    workers: list[_Worker] = []
    try:
        for _ in range(min(jobs, len(pending))):
            workers.append(_Worker(task, workers))
        while pending or any(worker.index is not None for worker in workers):
            for worker in workers:
                if worker.index is None and pending:
                    worker.give(pending.pop(), limit)
            yield from _collect(workers, task, limit)
    finally:
        for worker in workers:
            worker.stop()


def _collect(workers: list[_Worker], task: Task, limit: float) -> Iterator[tuple[int, Outcome]]:
    """Waits for something to happen, and hands on what did."""
    busy = {worker.connection: worker for worker in workers if worker.index is not None}
    patience = max(0.0, min(worker.deadline for worker in busy.values()) - time.monotonic())
    ready = wait(list(busy), timeout=patience)
    for connection, worker in busy.items():
        index = worker.index
        assert index is not None
        if connection in ready:
            outcome = _received(worker)
        elif worker.deadline <= time.monotonic():
            worker.stop()
            outcome = Outcome("failed", f"no result after {limit:.0f} s", limit)
        else:
            continue
        worker.index = None
        if not worker.process.is_alive():
            workers[workers.index(worker)] = _Worker(task, workers)
        yield index, outcome


def _received(worker: _Worker) -> Outcome:
    try:
        outcome = worker.connection.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        code = worker.process.exitcode or 0
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        worker.connection.close()
        return Outcome("failed", f"the process died: {name}")
    assert isinstance(outcome, Outcome)
    return outcome


def _serve(task: Task, connection: Connection, foreign: Sequence[Connection]) -> None:
    """The life of a worker: interrupts are the parent's business, warnings nobody's."""
    for end in foreign:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(EOFError, BrokenPipeError):  # the parent is gone
        while True:
            connection.send(task(connection.recv()))
    os._exit(0)  # nothing that was inherited is ours to clean up
