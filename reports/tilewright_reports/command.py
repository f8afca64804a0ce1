"""What `tilewright report` does: build and write the page, or check committed ones."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as Shown

from tilewright.errors import UsageError
from tilewright_reports.check import disagreements
from tilewright_reports.folder import MARKDOWN, write_report
from tilewright_reports.page import Section
from tilewright_reports.report import build
from tilewright_reports.sources import read_sources

OUTPUT = Path("reports/out")
PUBLISHED = Path("reports/published")

# A pipe has no width, and a folded table is of no use to grep.
PIPED_WIDTH = 200


def run_report(
    bench: Sequence[Path],
    accuracy: Sequence[Path],
    asv: Path | None,
    output: Path | None,
    layers: Sequence[Path] = (),
) -> bool:
    """Write the report, print its tables and name its page; False when no row was reportable.

    Raises UsageError without any file, DataError for a file that is damaged or not one of ours.
    """
    if not bench and not accuracy and not layers and asv is None:
        raise UsageError("nothing to report: give --bench, --accuracy or --layers FILE, or --asv DIR")
    sources = read_sources(bench, accuracy, asv, layers)
    report = build(sources)
    html = write_report(report, sources, output or OUTPUT)
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    for section in _summary(report.page.sections):
        console.print(_shown(section))
    console.print(f"report: {html.resolve()}", soft_wrap=True, highlight=False)
    if report.is_empty:
        print(f"tilewright: no row is reportable; the reasons are in {html}", file=sys.stderr)
    return not report.is_empty


def run_check(
    bench: Sequence[Path],
    accuracy: Sequence[Path],
    asv: Path | None,
    output: Path | None,
    layers: Sequence[Path] = (),
) -> bool:
    """Check one report's folder, or every one below a folder; False when a number disagrees.

    Raises UsageError when there is no report.
    """
    if bench or accuracy or asv or layers:
        raise UsageError("--check reads the raw files that lie with the report: give only -o DIR")
    root = output or PUBLISHED
    folders = sorted({path.parent for path in root.rglob(MARKDOWN)})
    if not folders:
        raise UsageError(f"no {MARKDOWN} below {root}: give the folder of a report with -o")
    agreed = True
    for folder in folders:
        found = disagreements(folder)
        agreed = agreed and not found
        for line in found:
            print(line, file=sys.stderr)
        print(f"{folder}: {'agrees with its raw data' if not found else f'{len(found)} disagreements'}")
    return agreed


def _summary(sections: Sequence[Section]) -> list[Section]:
    """The tables of results; where they come from is on the page."""
    origin = ("Environment", "Provenance of each row")
    return [section for section in sections if section.table and section.title not in origin]


def _shown(section: Section) -> Shown:
    shown = Shown(title=section.title, title_justify="left")
    if section.table is None:
        return shown
    for name, is_number in section.table.aligned():
        shown.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in section.table.rows:
        shown.add_row(*(text.replace("[", "\\[") for text in row))
    return shown
