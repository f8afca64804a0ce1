"""What `tilewright debug` does: search, then save, write and show."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import UsageError
from tilewright_bench.debug.probe import Prober
from tilewright_bench.debug.report import as_rows, lines_of, make_folder, save_values
from tilewright_bench.debug.search import MODES, search_all, search_by_bisection
from tilewright_bench.debug.tensors import ModelTensors
from tilewright_bench.engines.base import Array, EngineSpec, Settings
from tilewright_bench.engines.registry import parse_engine
from tilewright_bench.models import find_model
from tilewright_bench.progress import Reporter
from tilewright_bench.results import check_writable, write_result
from tilewright_bench.sizes import check_sizes
from tilewright_bench.verbosity import show_tracebacks

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What the user asked for; inputs: `NAME=FILE.npy`."""

    model: str
    engines: Sequence[str]
    inputs: Sequence[str]
    tolerance: float
    mode: str
    output_dir: Path
    json_to: str | None
    quiet: bool
    verbose: bool


def run_debug(request: Request, settings: Settings) -> bool:
    """Search, save, show; False when a tensor diverges.

    Raises UsageError for what cannot be run, RunError when an engine fails.
    """
    show_tracebacks(request.verbose)
    check_writable(request.json_to, [request.model])
    if request.mode not in MODES:
        raise UsageError(f"--mode {request.mode} is not known; choose one of {', '.join(MODES)}")
    if not request.tolerance >= 0:
        raise UsageError(f"--tolerance {request.tolerance}: give 0 or more")
    engines = _engines(request.engines)
    given = dict(_input_file(text) for text in request.inputs)
    model = find_model(request.model).path
    tensors = ModelTensors(model, settings.dims, given)
    check_sizes([model], settings.dims)
    make_folder(request.output_dir)
    with (
        tempfile.TemporaryDirectory(prefix="tilewright-debug-") as folder,
        Reporter(request.quiet) as reporter,
    ):
        if tensors.assumed:
            reporter.note(
                f"sizes that nothing gives are 1: {', '.join(tensors.assumed)} (--dim NAME=N changes that)"
            )
        prober = Prober(tensors, engines, settings, given, request.tolerance, Path(folder), reporter)
        search = search_all if request.mode == "all" else search_by_bisection
        found = search(tensors, prober, request.tolerance)
    names = [spec.text for spec in engines]
    rows = as_rows(found, request.tolerance)
    result: Json = {
        "model": request.model,
        "engines": names,
        "mode": request.mode,
        "tolerance": request.tolerance,
        "assumed_dims": list(tensors.assumed),
        "tensors": found.total,
        "first": None,
        "missing": list(found.missing),
        "healed": list(found.healed),
        "rows": rows,
    }
    if found.first is not None:
        row = next(row for row in rows if row["name"] == found.first.name)
        files = save_values(request.output_dir, found.first, found, names)
        operands = list(found.first.operands)
        result["first"] = row | {"operands": operands, "files": [str(path) for path in files]}
    if request.json_to != "-":
        sys.stdout.write("\n".join(lines_of(result)) + "\n")
    if request.json_to:
        write_result(result, request.json_to)
    return found.first is None


def _engines(texts: Sequence[str]) -> tuple[EngineSpec, EngineSpec]:
    if len(texts) != 2:
        raise UsageError(f"{len(texts)} engines: give two, e.g. --engine tilewright:cpu --engine ort")
    a, b = (parse_engine(text) for text in texts)
    return a, b


def _input_file(text: str) -> tuple[str, Array]:
    name, equals, file = text.rpartition("=")
    if not equals or not name or not file:
        raise UsageError(f"--input {text}: expected NAME=FILE.npy")
    try:
        loaded = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"--input {name}: {file} is not a readable .npy file: {error}") from error
    if not isinstance(loaded, np.ndarray):
        raise UsageError(f"--input {name}: {file} holds several arrays; give a .npy file")
    return name, loaded
