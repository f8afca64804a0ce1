"""Many kernels at a time: this process and others take nodes from one queue, in their order.

A process costs about as much as a few large kernels, so none is started before the time that the first
kernels took says that it is worth it: most models never start one. A process is a fresh interpreter that
talks through pipes (`worker.py`), so that nothing is forked beside running threads and the user's script is
not imported again.
"""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.graph.ir import Constant, Node, Value
from tilewright.lower.group import literal
from tilewright.lower.kernel import Lowered, lower_node
from tilewright.lower.target import Target

START_SECONDS = 0.5  # from the start of a process to its first kernel
_WORKER = "import sys; sys.path[:] = {path!r}; from tilewright.lower.worker import serve; serve()"


def lower_each(
    nodes: Sequence[Node], target: Target, processes: int, report: Callable[[int, Node], None]
) -> list[Lowered]:
    """The kernels of the nodes, in at most so many processes, this one included; the result is the same for
    any number.

    report: called before this process begins with a node, with the number of kernels that are ready. Raises
    what the first node that fails raises.
    """
    queue = deque(range(len(nodes)))
    made: dict[int, Lowered] = {}
    helpers: list[_Helper] = []
    start = time.thread_time()
    try:
        while (index := _next(queue)) is not None:
            report(len(made), nodes[index])
            try:
                made[index] = lower_node(nodes[index], target)
            except TilewrightError:
                queue.clear()  # nodes before this one may fail too: see below
            seconds = (time.thread_time() - start) / max(1, len(made))
            if not helpers:
                with suppress(OSError):  # no memory for another process: this one does what remains
                    for _ in range(min(len(queue), _worth(seconds * len(queue), processes))):
                        helpers.append(_Helper(nodes, queue, made, target))
        for helper in helpers:
            helper.join()
    finally:
        for helper in helpers:
            helper.close()
    # What is missing failed, came after what failed, or its process ended: here its error is raised.
    for index, node in enumerate(nodes):
        if index not in made:
            made[index] = lower_node(node, target)
    return [made[index] for index in range(len(nodes))]


def _worth(seconds: float, processes: int) -> int:
    """How many processes to start for work that takes this one so many seconds: each of all processes shall
    have more to do than a start costs.
    """
    frozen = getattr(sys, "frozen", False)  # an application that holds its own interpreter: not one for `-c`
    if frozen or not sys.executable:
        return 0
    return max(0, min(processes, int(seconds / START_SECONDS)) - 1)


def _next(queue: deque[int]) -> int | None:
    try:
        return queue.popleft()
    except IndexError:
        return None


class _Helper(threading.Thread):
    """A process that lowers nodes of the queue, and the thread that talks to it."""

    def __init__(
        self, nodes: Sequence[Node], queue: deque[int], made: dict[int, Lowered], target: Target
    ) -> None:
        super().__init__(name="tilewright lowering", daemon=True)
        self.nodes, self.queue, self.made, self.target = nodes, queue, made, target
        # a group of its own: Ctrl-C reaches this process alone, which ends the other
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER.format(path=[str(entry) for entry in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        self.start()

    def run(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self._send(self.target)
            while (index := _next(self.queue)) is not None:
                self._send(self.nodes[index])
                answer = pickle.load(self.process.stdout)
                if answer is None:
                    self.queue.clear()
                    return
                self.made[index] = answer
        except (OSError, EOFError, pickle.UnpicklingError):
            return  # the process ended, killed for memory perhaps; its node is left to the main thread

    def _send(self, value: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(pickled(value))
        self.process.stdin.flush()

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.join()
        with suppress(BrokenPipeError), self.process:  # closes the pipes; what was not sent yet is not wanted
            pass


def pickled(value: object) -> bytes:
    """A node, or anything else, as bytes for another process."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    """Leaves out the rest of the graph: who computes an operand, and the data of constants that do not stand
    in the kernel's code.
    """

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Value):
            return NotImplemented
        if isinstance(value, Constant) and literal(value) is not None:
            return Constant, (value.name, value.type, None, 0, value.data)
        return Value, (value.name, value.type)
