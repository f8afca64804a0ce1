"""Several runs at a time, for throughput: each caller has a thread and, where an engine needs it, a session
of its own.
"""

import math
import threading
import time
from collections.abc import Callable
from types import TracebackType

from tilewright_bench.engines.base import Arrays, Session

# One measured call: long enough that waking the callers does not count.
CALL_S = 0.005


class Callers:
    """`count` callers that run a model at the same time, `runs` times each, whenever this object is called.

    A context manager: leaving it ends the threads. Errors of a run pass through to whoever called.
    """

    def __init__(self, session: Session, inputs: Arrays, count: int) -> None:
        self._inputs = inputs
        sessions = [session, *(session.beside() for _ in range(count - 1))]
        self._start = threading.Barrier(count + 1)
        self._end = threading.Barrier(count + 1)
        self._errors: list[Exception] = []
        self._ended = False
        self.count = count
        self.runs = 1
        self._threads = [
            threading.Thread(target=self._serve, args=(one.run,), daemon=True) for one in sessions
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Callers":
        try:
            self()
            start = time.perf_counter()
            self()
        except Exception:
            self._finish()
            raise
        self.runs = max(1, math.ceil(CALL_S / max(time.perf_counter() - start, 1e-6)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()

    def _finish(self) -> None:
        self._ended = True
        self._start.wait()
        for thread in self._threads:
            thread.join()

    def __call__(self) -> None:
        self._start.wait()
        self._end.wait()
        if self._errors:
            raise self._errors[0]

    def _serve(self, run: Callable[[Arrays], object]) -> None:
        while True:
            self._start.wait()
            if self._ended:
                return
            try:
                for _ in range(self.runs):
                    run(self._inputs)
            except Exception as error:  # handed to whoever called
                self._errors.append(error)
            self._end.wait()
