"""Compiles and runs one broken model in a process with little memory that watches which files are opened."""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np

import tilewright as tw
from fuzz.mutants import mutant, prepare
from tilewright.cli.conformance.outcome import Outcome
from tilewright.cli.conformance.workers import run_tasks
from tilewright.errors import TilewrightError
from tilewright.runtime.executable import Executable

MEMORY = 4 << 30  # bytes of address space; libraries take about one
LIMIT = 60.0  # seconds
LONGEST = 1200  # characters of one line
# Faults of the file as a whole, where there is no node or tensor to name.
WHOLE_FILE = re.compile(
    r"truncated or not an ONNX model|holds no graph|no outputs|is empty|opset|sparse|2 GiB|text"
)

_opened: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        _opened.append(os.fsdecode(arguments[0]))


def judge_mutants(seeds: list[int], jobs: int, cache: Path) -> list[str]:
    """One line for each mutant that was not treated well."""
    hooked = False

    def task(seed: int) -> Outcome:
        nonlocal hooked
        if not hooked:
            sys.addaudithook(_watch)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
            hooked = True
        with tempfile.TemporaryDirectory(dir=cache) as place:
            return _treated(seed, prepare(Path(place)), cache)

    found = run_tasks(task, seeds, jobs, LIMIT)
    return [f"mutant {seed}: {outcome.reason}" for seed, outcome in found if outcome.status == "failed"]


def _treated(seed: int, folder: Path, cache: Path) -> Outcome:
    kind, data = mutant(seed)
    path = folder / "model.onnx"
    path.write_bytes(data)
    _opened.clear()
    reason = _message_fault(path, cache)
    place = folder.parent.resolve()
    left = [name for name in _opened if _outside(Path(name), place)]
    if left:
        reason = f"read {left[0]}, which is not in the model's folder"
    return Outcome("failed", f"({kind}) {reason}") if reason else Outcome("passed")


def _outside(path: Path, place: Path) -> bool:
    """Whether a file is one that a mutant names outside of its folder."""
    real = path.resolve()
    return real.parent == place or real == Path("/etc/hostname")


def _message_fault(path: Path, cache: Path) -> str:
    """What is wrong with how the compiler took the model, or ""."""
    try:
        executable = tw.compile(path, threads=1, cache_dir=cache)
        feeds = _feeds(executable)
        if feeds is not None:
            executable.run(feeds)
    except TilewrightError as error:
        return _unclear(str(error), str(path))
    except MemoryError:
        return "ran out of memory"
    except Exception as error:  # the compiler may only raise its own
        return f"{type(error).__name__}: {error}"
    return ""


def _feeds(executable: Executable) -> dict[str, np.ndarray] | None:
    """Zeros, two for every open size; None when that would be large."""
    shapes = {a.name: tuple(n if isinstance(n, int) else 2 for n in a.shape) for a in executable.inputs}
    outputs = [tuple(n if isinstance(n, int) else 2 for n in a.shape) for a in executable.outputs]
    if any(np.prod(shape, dtype=float) > 1e7 for shape in (*shapes.values(), *outputs)):
        return None
    return {a.name: np.zeros(shapes[a.name], a.dtype) for a in executable.inputs}


def _unclear(message: str, path: str) -> str:
    """Why a message does not help, or ""."""
    rest = message.replace(f"'{path}'", "")
    if "\n" in message:
        return f"several lines: {message!r}"
    if len(rest) > LONGEST:
        return f"a line of {len(rest)} characters: {message[:200]!r}"
    if not rest.strip():
        return "an empty message"
    if "'" not in rest and not WHOLE_FILE.search(rest):
        return f"names nothing: {message!r}"
    return ""
