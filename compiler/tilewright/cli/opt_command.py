"""`tilewright opt`: text in, text out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tilewright.cli.output import check_writable
from tilewright.config import CompileOptions
from tilewright.driver import make_target
from tilewright.errors import UsageError
from tilewright.graph.parse import read_text
from tilewright.graph.text import print_module, write_text
from tilewright.passes.registry import parse_passes
from tilewright.passes.verify import verify_function


def optimise_text(
    file: Path, passes: str, output: Path | None, target: str | None, machine: Path | None, precision: str
) -> None:
    """Runs passes on every function of the text, checking it before and after each.

    target, machine, precision: whom passes ask that depend on a target, and in which mode; machine: a
    profile, None for this one.
    Raises UsageError for an unknown pass, ParseError for a bad text, VerifyError for an ill-typed graph.
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a file; give the text of a graph, as --dump-dir writes it")
    if output is not None:
        check_writable(output, file, machine)
    chosen = parse_passes(passes, _answers(target, machine, precision))
    module = read_text(file)
    for function in module.functions.values():
        verify_function(function)
        for step in chosen:
            step.run(function)
            verify_function(function)
    if output is None:
        typer.echo(print_module(module), nl=False)
    else:
        write_text(module, output)


def _answers(target: str | None, machine: Path | None, precision: str) -> dict[str, Any]:
    if target is None:
        if machine is not None:
            raise UsageError(f"--machine {machine}: say with --target whose machine it is")
        return {}
    made = make_target(CompileOptions(target=target, machine=machine, precision=precision))
    return {"costs": made, "should_lower": made.should_lower}
