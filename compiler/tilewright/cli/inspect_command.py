"""`tilewright inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tilewright.binding import UnboundExecutable
from tilewright.cli.compile_command import compile_named
from tilewright.cli.models import artefact_file
from tilewright.cli.output import byte_text, check_json, table_console, write_json
from tilewright.cli.reasons import HEAD, reason_rows
from tilewright.config import CompileOptions
from tilewright.runtime.artefact import read_artefact
from tilewright.runtime.package import Package
from tilewright.segment import Segment


def inspect_model(name: str, options: CompileOptions, json_to: str | None, quiet: bool) -> None:
    """Shows an artefact, or a model after compiling it. Reading an artefact needs no device.

    Raises UsageError, before any work, for a `json_to` that could not be written or is a file that is read.
    """
    check_json(json_to, Path(name), options.machine)
    artefact = artefact_file(name)
    package = read_artefact(artefact) if artefact else _compiled(name, options, quiet)
    if json_to is not None:
        write_json(json_to, described(package))
    if json_to != "-":
        _show(package)


def _compiled(name: str, options: CompileOptions, quiet: bool) -> Package:
    executable = compile_named(name, options, quiet)
    if isinstance(executable, UnboundExecutable):
        executable.require_bound(f"model '{name}' has no kernels yet")
    return executable.package


def described(package: Package) -> dict[str, Any]:
    """Everything that is known of a package, as JSON values."""
    inputs, outputs = package.arguments()
    return {
        "model_sha256": package.model,
        "target": package.target,
        "versions": package.versions,
        "inputs": [{"name": a.name, "dtype": str(a.dtype), "shape": list(a.shape)} for a in inputs],
        "outputs": [{"name": a.name, "dtype": str(a.dtype), "shape": list(a.shape)} for a in outputs],
        **package.info,
        "segments": [_segment(segment) for segment in package.segments],
    }


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "target": segment.target,
        "features": list(segment.features),
        "code_bytes": len(segment.code),
        "constant_bytes": int(segment.constants.nbytes),
        "mutable_bytes": segment.mutable_bytes,
        "arena_bytes": segment.arena_bytes,
        **segment.info,
    }


def _show(package: Package) -> None:
    facts = described(package)
    console = table_console()
    overview = Table(show_header=False)
    overview.add_row("model sha256", package.model)
    overview.add_row("target", f"{package.target}, {facts['precision']}, -O{facts['level']}")
    overview.add_row("inputs", "\n".join(f"{a['name']} {a['dtype']}{a['shape']}" for a in facts["inputs"]))
    overview.add_row("outputs", "\n".join(f"{a['name']} {a['dtype']}{a['shape']}" for a in facts["outputs"]))
    overview.add_row("operators", ", ".join(f"{count} {op}" for op, count in sorted(facts["ops"].items())))
    console.print(overview)
    for number, segment in enumerate(facts["segments"]):
        _show_segment(console, number, segment)


def _show_segment(console: Console, number: int, segment: dict[str, Any]) -> None:
    console.print(
        f"\nsegment {number}: {segment['target']}, code {byte_text(segment['code_bytes'])}, "
        f"constants {byte_text(segment['constant_bytes'])}, "
        f"features {', '.join(segment['features']) or 'none'}"
    )
    if "kernels" not in segment:
        console.print("no kernels: the graph itself is evaluated")
        return
    table = Table("kernel", "calls", "Mflop", "int Mop", "moved", "template", "schedule from", "nodes")
    for row in segment["kernels"]:
        table.add_row(
            row["name"],
            str(row["calls"]),
            f"{row['flops'] / 1e6:,.2f}",
            f"{row['int_ops'] / 1e6:,.2f}",
            byte_text(row["bytes"]),
            row.get("template", ""),
            row.get("source", ""),
            _few(row["nodes"]),
        )
    console.print(table)
    _show_reasons(console, segment)
    memory = segment["memory"]
    figures = Table(show_header=False)
    figures.add_row("flops", f"{segment['flops'] / 1e9:,.3f} G, moving {byte_text(segment['bytes'])}")
    figures.add_row("integer operations", f"{segment['int_ops'] / 1e9:,.3f} G")
    figures.add_row("copies", str(segment["copies"]))
    figures.add_row("storages", ", ".join(f"{count} {name}" for name, count in segment["storages"].items()))
    figures.add_row("arena, peak", byte_text(memory["arena_bytes"]))
    figures.add_row("sum of tensors", byte_text(memory["sum_bytes"]))
    figures.add_row("lower bound", byte_text(memory["lower_bound"]))
    figures.add_row("inputs and outputs", byte_text(memory["mutable_bytes"]))
    console.print(figures)


def _show_reasons(console: Console, segment: dict[str, Any]) -> None:
    rows = list(reason_rows(segment))
    if not rows:
        return
    table = Table(*HEAD)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown}, … {len(names)} in all" if len(names) > 3 else shown
