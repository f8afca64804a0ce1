"""Cold start in a fresh process: load time, first run and peak memory, one child per engine.

Measured apart from the steady state because it is another number, and in a process of its own because
imports, memory and page tables of one engine would otherwise be charged to the next.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tilewright.errors import RunError
from tilewright_bench.engines.base import EngineSpec, Prepared, Settings

TIMEOUT_S = 900


@dataclass(frozen=True)
class ColdStart:
    """`load_s` seconds without imports and with a warm page cache; `first_ms` the first run after it.

    `peak_rss_mb` is the peak resident memory of the whole process in MB (10**6 bytes), `imports_rss_mb` what
    it had after imports, before the model.
    """

    load_s: float
    first_ms: float
    peak_rss_mb: float
    imports_rss_mb: float


def cold_start(prepared: Prepared, spec: EngineSpec, settings: Settings, seed: int = 0) -> ColdStart:
    """Load and run once in a fresh child that inherits this process's affinity. Raises RunError when it
    fails.
    """
    request = json.dumps(
        {"engine": spec.text, "settings": settings.as_json(), "path": str(prepared.path), "seed": seed}
    )
    command = [sys.executable, "-m", "tilewright_bench.child"]
    try:
        done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"engine '{spec.text}' did not load and run within {TIMEOUT_S} s") from error
    return ColdStart(**_answer(done, spec))


def _answer(done: "subprocess.CompletedProcess[str]", spec: EngineSpec) -> dict[str, Any]:
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"exit status {done.returncode} without a word"
        raise RunError(f"engine '{spec.text}' failed in its own process: {reason}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
