"""`tilewright run`."""

from __future__ import annotations

import io
import os
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tilewright.binding import UnboundExecutable
from tilewright.cli.compile_command import compile_named
from tilewright.cli.models import artefact_file, model_file
from tilewright.cli.output import check_json, check_writable, compile_progress, table_console, write_json
from tilewright.config import CompileOptions
from tilewright.driver import compile_with, load, require_runnable
from tilewright.errors import UsageError
from tilewright.graph.ir import Function, Value
from tilewright.runtime.executable import Executable
from tilewright.runtime.package import Argument
from tilewright.runtime.tracing import chrome_trace
from tilewright.source import Source

LARGEST_INTEGER = 10  # seeded integers are mostly indices: they must be small


@dataclass(frozen=True)
class Request:
    """What the user asked for; inputs: `NAME=FILE.npy`."""

    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_dir: Path | None
    trace: Path | None
    seed: int
    json_to: str | None
    quiet: bool


def run_model(request: Request, options: CompileOptions) -> None:
    """Compiles or loads, runs once, writes and describes. Raises UsageError, RunError."""
    read = (Path(request.model), options.machine, *(Path(_parted(text)[1]) for text in request.inputs))
    check_json(request.json_to, *read)
    if request.trace is not None:
        check_writable(request.trace, *read)
    given = dict(_input_file(text) for text in request.inputs)
    if request.output_dir is not None:
        _make_folder(request.output_dir)
    executable = _executable(request, options)
    inputs = {a.name: _seeded(a, request.seed) for a in _open_inputs(executable, given)}
    results, seconds = _timed(executable, inputs | given, request.trace)
    names = _chosen(request, list(results))
    if request.output_dir is not None:
        for name in names:
            _save(request.output_dir / f"{name.replace('/', '_')}.npy", results[name])
    rows = [_described(name, results[name]) for name in names]
    if request.json_to is not None:
        write_json(request.json_to, {"outputs": rows, "seconds": seconds})
    if request.json_to != "-":
        _show(rows, seconds)


def _open_inputs(executable: Executable, given: dict[str, np.ndarray]) -> Sequence[Argument]:
    """The inputs to be seeded. Raises UsageError when their sizes are not known."""
    if isinstance(executable, UnboundExecutable):
        return executable.open_arguments(given)
    return [argument for argument in executable.inputs if argument.name not in given]


def _timed(
    executable: Executable, inputs: dict[str, np.ndarray], trace: Path | None
) -> tuple[dict[str, np.ndarray], float]:
    start = time.perf_counter()
    if trace is None:
        results = executable.run(inputs)
        return results, time.perf_counter() - start
    results, spans = executable.trace(inputs)
    seconds = time.perf_counter() - start
    write_json(str(trace), chrome_trace(spans))
    return results, seconds


def _executable(request: Request, options: CompileOptions) -> Executable:
    artefact = artefact_file(request.model)
    if artefact is not None:
        return Executable.load(artefact, options.threads)
    require_runnable(options)
    if not request.outputs:
        return compile_named(request.model, options, request.quiet)
    module = load(model_file(request.model), options.dims)
    _choose_outputs(module.entry, request.outputs)
    with compile_progress(Path(request.model).stem, request.quiet) as progress:
        return compile_with(Source.of(module), replace(options, dims={}), progress)


def _choose_outputs(function: Function, names: Sequence[str]) -> None:
    """Makes the named values, or the results of the named nodes, the function's only outputs."""
    known: dict[str, list[Value]] = {}
    for node in function.nodes:
        known.setdefault(node.name, []).extend(node.outputs)
    for value in (*function.inputs, *(v for node in function.nodes for v in node.outputs)):
        known[value.name] = [value]
    for name, value in zip(function.output_names, function.outputs, strict=True):
        known[name] = [value]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"--output {unknown[0]}: the model has no output or node of that name")
    chosen = {name: known[name] for name in names}
    function.outputs = [value for values in chosen.values() for value in values]
    function.output_names = [
        name if len(values) == 1 else value.name for name, values in chosen.items() for value in values
    ]


def _chosen(request: Request, available: list[str]) -> list[str]:
    """The outputs to show; a model was compiled for them, of an artefact they are chosen here."""
    if not request.outputs or artefact_file(request.model) is None:
        return available
    unknown = [name for name in request.outputs if name not in available]
    if unknown:
        raise UsageError(
            f"--output {unknown[0]}: the artefact has only the outputs {', '.join(available)}; "
            "give the model to see other nodes"
        )
    return list(request.outputs)


def _parted(text: str) -> tuple[str, str]:
    """Name and file of `NAME=FILE.npy`. Raises UsageError."""
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise UsageError(f"--input {text}: expected NAME=FILE.npy")
    return name, file


def _input_file(text: str) -> tuple[str, np.ndarray]:
    name, file = _parted(text)
    try:
        loaded = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"--input {name}: {file} is not a readable .npy file: {error}") from error
    if not isinstance(loaded, np.ndarray):
        raise UsageError(f"--input {name}: {file} holds several arrays; give a .npy file")
    return name, loaded


def _seeded(argument: Argument, seed: int) -> np.ndarray:
    """Standard normal floats, integers in [0, 10), random booleans; they depend on name and seed only."""
    generator = np.random.default_rng([seed, zlib.crc32(argument.name.encode())])
    shape = [int(extent) for extent in argument.shape]
    if argument.dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if argument.dtype.kind in "iu":
        return generator.integers(0, LARGEST_INTEGER, shape).astype(argument.dtype)
    return generator.standard_normal(shape, dtype=np.float32).astype(argument.dtype)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output-dir {folder} cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output-dir {folder} is read-only")


def _save(path: Path, array: np.ndarray) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    try:
        draft.write_bytes(buffer.getvalue())
        os.replace(draft, path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def _described(name: str, array: np.ndarray) -> dict[str, Any]:
    wide = array.astype(np.float64).reshape(-1)
    row: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
    if wide.size:
        row |= {"min": float(wide.min()), "max": float(wide.max()), "mean": float(wide.mean())}
        row |= {"largest": [int(i) for i in np.argsort(-wide, kind="stable")[:5]]}
    return row


def _show(rows: list[dict[str, Any]], seconds: float) -> None:
    table = Table("output", "type", "min", "mean", "max", "largest at")
    for row in rows:
        figures = [f"{row[key]:.6g}" if key in row else "" for key in ("min", "mean", "max")]
        places = " ".join(map(str, row.get("largest", [])))
        table.add_row(row["name"], f"{row['dtype']}{row['shape']}", *figures, places)
    console = table_console()
    console.print(table)
    console.print(f"first run: {seconds * 1e3:.2f} ms")
