"""Waiting until no other thread of this process runs.

Idle workers of some engines keep spinning after a run. With two engines in one process the spinning of one
would be measured as slowness of the other, so a block starts only when the calling thread is alone.
"""

import os
import threading
import time

POLL_S = 0.0002
LIMIT_S = 0.5


def other_running_threads() -> int:
    """How many threads of this process, the caller's excepted, are running or waiting for a CPU (state R)."""
    me = threading.get_native_id()
    return sum(_state(int(task)) == "R" for task in os.listdir("/proc/self/task") if int(task) != me)


def wait_until_quiet(limit_s: float = LIMIT_S) -> bool:
    """Wait until no other thread runs; False when one still does after `limit_s` seconds."""
    end = time.perf_counter() + limit_s
    while other_running_threads():
        if time.perf_counter() > end:
            return False
        time.sleep(POLL_S)
    return True


def _state(task: int) -> str:
    try:
        with open(f"/proc/self/task/{task}/stat", encoding="ascii", errors="replace") as stat:
            # The thread's name stands in parentheses and may hold any character, a parenthesis too.
            return stat.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"  # the thread ended between the listing and the reading
