"""`python -m fuzz --count N [--seed S] [--jobs J]`: draws and judges graphs, keeps what fails.

Seeds are consecutive; Ctrl-C ends the run and says at which seed to go on. Exit code 1 when a graph failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from fuzz.drawing import Case
from fuzz.engines import judge
from fuzz.graphs import draw
from fuzz.shrinking import save, shrink
from tilewright.cli.conformance.outcome import Outcome
from tilewright.cli.conformance.workers import run_tasks

LIMIT = 120.0  # seconds for one graph


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="graphs to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for failing models")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as folder:
        return Fuzzer(Path(folder), given.keep).run(given.seed, given.count, given.jobs)


class Fuzzer:
    """cache: folder of compiled objects, for this run only; keep: where failing models go."""

    def __init__(self, cache: Path, keep: Path) -> None:
        self.cache = cache
        self.keep = keep
        self.opencl = find_spec("pyopencl") is not None

    def run(self, seed: int, count: int, jobs: int) -> int:
        start, done = time.monotonic(), set[int]()
        failures: list[int] = []
        peers: Counter[str] = Counter()
        try:
            for index, outcome in run_tasks(self.task, list(range(seed, seed + count)), jobs, LIMIT):
                done.add(index)
                if outcome.status == "failed":
                    failures.append(index)
                    self.report(index, outcome.reason)
                elif outcome.reason:
                    peers[outcome.reason] += 1
                if len(done) % 100 == 0:
                    rate = len(done) / (time.monotonic() - start)
                    _say(f"{len(done)} of {count} graphs, {len(failures)} failed, {rate:.1f} graphs/s")
        except KeyboardInterrupt:
            _say("stopped")
        following = next(s for s in range(seed, seed + count + 1) if s not in done)
        elapsed = time.monotonic() - start
        _say(f"seeds {seed} to {following - 1} done, {elapsed:.0f} s; go on with SEED={following}")
        _say(f"OpenCL: {'every tenth graph' if self.opencl else 'not installed'}")
        for reason, number in peers.most_common():
            _say(f"ONNX Runtime did not take part in {number}: {reason}")
        print(
            f"{len(done)} graphs, {len(failures)} failed" + "".join(f"\n  seed {s}" for s in sorted(failures))
        )
        return 1 if failures else 0

    def task(self, seed: int) -> Outcome:
        """One graph, in a worker process."""
        return self.outcome(draw(seed), seed)

    def outcome(self, case: Case, seed: int) -> Outcome:
        try:
            verdict = judge(case, seed, self.cache, self.opencl and seed % 10 == 0)
        except Exception as error:  # the compiler's own fault: it must raise its own errors only
            return Outcome("failed", " ".join(f"{type(error).__name__}: {error}".split()))
        if verdict.fault:
            return Outcome("failed", " ".join(verdict.fault.split()))
        return Outcome("passed", verdict.peer)

    def report(self, seed: int, reason: str) -> None:
        _say(f"seed {seed}: {reason}")
        kind = reason.split(":")[0]

        def fails(case: Case) -> bool:
            """In a process of its own: the failure may be a crash."""
            ((_, outcome),) = run_tasks(lambda _: self.outcome(case, seed), [0], 1, LIMIT)
            return outcome.status == "failed" and outcome.reason.split(":")[0] == kind

        small = shrink(draw(seed), fails)
        ((_, outcome),) = run_tasks(lambda _: self.outcome(small, seed), [0], 1, LIMIT)
        ops = ", ".join(node.op_type for node in small.model.graph.node)
        path = save(small, self.keep, f"seed{seed}", f"seed {seed}: {outcome.reason}\n{ops}")
        _say(f"seed {seed}: {len(small.model.graph.node)} nodes ({ops}) in {path}: {outcome.reason}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
