"""The command `report`: its options. What it does is imported when it is called."""

from pathlib import Path
from typing import Annotated

import typer

BenchFiles = Annotated[
    list[Path] | None, typer.Option("--bench", metavar="FILE", help="JSON of tilewright bench; repeat it")
]
AccuracyFiles = Annotated[
    list[Path] | None,
    typer.Option("--accuracy", metavar="FILE", help="JSON of tilewright accuracy; repeat it"),
]
AsvFolder = Annotated[
    Path | None, typer.Option("--asv", metavar="DIR", help="asv's results folder, e.g. bench/results")
]
LayerFiles = Annotated[
    list[Path] | None, typer.Option("--layers", metavar="FILE", help="JSON of tilewright layers; repeat it")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", metavar="DIR", help="the report's folder (default reports/out; --check: reports/published)"
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="do the numbers of the committed reports below DIR follow from their raw data?"
    ),
]


def register(app: typer.Typer) -> None:
    """Add this room's command to the application."""
    app.command("report")(report)


def report(
    bench: BenchFiles = None,
    accuracy: AccuracyFiles = None,
    layers: LayerFiles = None,
    asv: AsvFolder = None,
    output: Output = None,
    check: Check = False,
) -> None:
    """Turn result files into one page (Markdown and HTML) with plots, their raw data beside it.

    Exit code 1 when no row is reportable, or when --check finds a number that its raw data does not give.
    """
    from tilewright_reports import command

    if check:
        done = command.run_check(bench or [], accuracy or [], asv, output, layers or [])
    else:
        done = command.run_report(bench or [], accuracy or [], asv, output, layers or [])
    raise typer.Exit(0 if done else 1)
