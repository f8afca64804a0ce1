"""The child of `children.cold_start`, run as a module: a request on stdin, JSON on stdout."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright_bench.engines.base import Prepared, Settings
from tilewright_bench.engines.registry import engine_of, parse_engine
from tilewright_bench.inputs import seeded_inputs


def measure_cold_start(request: dict[str, Any]) -> dict[str, float]:
    """Load the prepared file and run it once; see `children.ColdStart` for the figures."""
    spec = parse_engine(request["engine"])
    engine = engine_of(spec)
    settings = Settings.from_json(request["settings"])
    prepared = Prepared(Path(request["path"]))
    engine.imports(spec)
    _warm_page_cache(prepared.path)
    imports_mb = memory_mb("VmRSS")
    start = time.perf_counter()
    session = engine.load(prepared, spec, settings)
    loaded = time.perf_counter()
    inputs = seeded_inputs(session.inputs, request["seed"])
    before = time.perf_counter()
    session.run(inputs)
    first_ms = 1e3 * (time.perf_counter() - before)
    return {
        "load_s": loaded - start,
        "first_ms": first_ms,
        "peak_rss_mb": memory_mb("VmHWM"),
        "imports_rss_mb": imports_mb,
    }


def memory_mb(field: str) -> float:
    """A field of /proc/self/status in MB: VmRSS is resident now, VmHWM the peak.

    Not getrusage: its peak survives exec, so a child would report what its parent needed.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no {field}")


def _warm_page_cache(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


def serve(answer: Callable[[dict[str, Any]], object]) -> None:
    """Read a request on stdin, print its answer on stdout, both JSON. What libraries print goes to stderr."""
    kept = os.dup(1)
    os.dup2(2, 1)
    result = answer(json.load(sys.stdin))
    with open(kept, "w", encoding="utf-8") as stdout:
        json.dump(result, stdout)


if __name__ == "__main__":
    serve(measure_cold_start)
