"""The self-test at several thread counts, each in a fresh process.

Some engines fix their threads when they start, so one process cannot measure one thread and then two. This
module is both sides: `selftest_at` starts the children, and run as a module it is the child (a request on
stdin, JSON on stdout).
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tilewright.errors import RunError, TilewrightError
from tilewright_bench.child import serve
from tilewright_bench.engines.base import EngineSpec, Settings
from tilewright_bench.engines.registry import parse_engine
from tilewright_bench.measure import Plan
from tilewright_bench.models import ModelFile
from tilewright_bench.progress import Reporter
from tilewright_bench.selftest import selftest

Json = dict[str, Any]


def selftest_at(
    counts: Sequence[int],
    model: ModelFile,
    spec: EngineSpec,
    settings: Settings,
    runs: int,
    plan: Plan,
    quiet: bool,
) -> Json:
    """The self-test at each thread count as one result. Raises RunError with the reason when a child fails.

    Ctrl-C reaches the child too, which keeps its complete runs; the counts after it are left out.
    """
    parts: list[Json] = []
    for count in counts:
        request = {
            "model": model.name,
            "path": str(model.path),
            "engine": spec.text,
            "settings": replace(settings, threads=count).as_json(),
            "runs": runs,
            "plan": asdict(plan),
            "quiet": quiet,
        }
        parts.append(_child(request))
        if parts[-1]["interrupted"]:
            break
    return joined(parts)


def joined(parts: Sequence[Json]) -> Json:
    """Results of single thread counts as one: passed when all passed, interrupted when one was."""
    return {
        **parts[0],
        "results": [result for part in parts for result in part["results"]],
        "interrupted": any(part["interrupted"] for part in parts),
        "passed": all(part["passed"] for part in parts),
    }


def _child(request: Json) -> Json:
    command = [sys.executable, "-m", "tilewright_bench.selftest_children"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        # The child answers Ctrl-C with what it has; this process must live to read it.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            stdout, _ = child.communicate(json.dumps(request))
        finally:
            signal.signal(signal.SIGINT, before)
    if child.returncode:
        raise RunError(f"the self-test's process ended with status {child.returncode}; see its message above")
    answer: Json = json.loads(stdout)
    if "error" in answer:
        raise RunError(f"self-test: {answer['error']}")
    return answer


def _answer(request: Json) -> Json:
    model = ModelFile(request["model"], Path(request["path"]))
    settings = Settings.from_json(request["settings"])
    with Reporter(request["quiet"]) as reporter:
        try:
            return selftest(
                model,
                parse_engine(request["engine"]),
                settings,
                request["runs"],
                Plan(**request["plan"]),
                reporter,
            )
        except TilewrightError as error:
            return {"error": str(error)}


if __name__ == "__main__":
    serve(_answer)
