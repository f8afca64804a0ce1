"""A report's folder: report.md, report.html, its plots, and below raw/ the files it was made of."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tilewright.errors import UsageError
from tilewright_reports.page import render_html, render_markdown
from tilewright_reports.plots import draw
from tilewright_reports.report import Report
from tilewright_reports.sources import Sources

MARKDOWN = "report.md"
HTML = "report.html"


def write_report(report: Report, sources: Sources, folder: Path) -> Path:
    """Write the whole folder and return the HTML page; raw files and plots of an earlier report go away.

    Everything is made before the first file is written. Raises UsageError when the folder cannot be written.
    """
    files: dict[str, bytes] = {f"raw/{source.name}": source.content for source in sources.all()}
    files |= {figure.file: draw(figure) for figure in report.page.figures}
    files[MARKDOWN] = render_markdown(report.page).encode()
    files[HTML] = render_html(report.page).encode()
    try:
        for name, content in files.items():
            _replace(folder / name, content)
        _remove_stale(folder, files)
    except OSError as error:
        raise UsageError(
            f"cannot write the report to {folder}: {error.strerror}; choose another with -o"
        ) from error
    return folder / HTML


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)  # a temporary file is private, a report is not
    os.replace(file.name, path)


def _remove_stale(folder: Path, files: Mapping[str, bytes]) -> None:
    for path in [*folder.glob("*.svg"), *(folder / "raw").rglob("*.json")]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for path in sorted((folder / "raw").rglob("*"), reverse=True):  # what lies deeper comes first
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
