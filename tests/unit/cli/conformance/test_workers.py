"""Tasks in processes of their own: crashes and hangs cost one task each."""

import os
import signal
import time

import pytest

from tilewright.cli.conformance.outcome import Outcome
from tilewright.cli.conformance.workers import run_tasks


def outcomes(task, count, jobs=2, limit=20.0):
    return dict(run_tasks(task, list(range(count)), jobs, limit))


def test_every_task_has_its_outcome():
    found = outcomes(lambda index: Outcome("passed", str(index)), 7)
    assert {index: outcome.reason for index, outcome in found.items()} == {i: str(i) for i in range(7)}


def test_tasks_run_in_other_processes():
    found = outcomes(lambda index: Outcome("passed", str(os.getpid())), 4)
    assert str(os.getpid()) not in {outcome.reason for outcome in found.values()}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_crash_fails_one_task(jobs):
    def task(index):
        if index in (1, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome("passed")

    found = outcomes(task, 5, jobs)
    assert [found[index].status for index in range(5)] == ["passed", "failed", "passed", "failed", "passed"]
    assert found[1].reason == "the process died: SIGKILL"


def test_an_exit_fails_one_task():
    def task(index):
        if index == 0:
            os._exit(3)
        return Outcome("passed")

    found = outcomes(task, 2, jobs=1)
    assert found[0] == Outcome("failed", "the process died: exit code 3")
    assert found[1].status == "passed"


def test_a_hang_fails_one_task():
    def task(index):
        if index == 0:
            time.sleep(600)
        return Outcome("passed")

    found = outcomes(task, 3, jobs=1, limit=1.0)
    assert found[0] == Outcome("failed", "no result after 1 s", 1.0)
    assert [found[index].status for index in (1, 2)] == ["passed", "passed"]


def test_what_was_done_is_kept_when_the_run_is_stopped():
    run = run_tasks(lambda index: Outcome("passed"), list(range(50)), 2, 20.0)
    first = next(run)
    run.close()  # what an interrupt does: no process may stay behind
    assert first[1].status == "passed"
