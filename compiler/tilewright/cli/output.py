"""Where results go: tables for people, JSON for scripts, progress on stderr."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tilewright.errors import UsageError
from tilewright.lower.kernels import Progress as Report


def check_writable(path: Path, *read: Path | None) -> None:
    """Refuses, before work begins, a file that could not be written after it.

    read: files that the command reads, which the result must not replace. Raises UsageError.
    """
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a folder; give the name of a file")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{path} cannot be written: the folder {folder} does not exist or is read-only")
    if any(same_file(path, other) for other in read if other is not None):
        raise UsageError(
            f"{path} is read by this command and would be lost; write the result to another file"
        )


def check_json(destination: str | None, *read: Path | None) -> None:
    """As `check_writable`, for what `--json` was given. Raises UsageError."""
    if destination not in (None, "-"):
        check_writable(Path(destination), *read)


def is_device(path: Path) -> bool:
    """Whether there is something that a file would take the place of: a pipe, /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir()


def same_file(a: Path, b: Path) -> bool:
    """Whether two names lead to one file that exists, through links too."""
    return a.exists() and b.exists() and a.samefile(b)


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all, or to a device. Raises UsageError."""
    check_writable(path)
    try:
        if is_device(path):
            path.write_text(text)
            return
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def write_json(destination: str, value: Any) -> None:
    """JSON to a file, or to stdout with `-`."""
    text = json.dumps(value, indent=2) + "\n"
    if destination == "-":
        typer.echo(text, nl=False)
    else:
        write_text(Path(destination), text)


def table_console() -> Console:
    """A console on stdout for tables; in a pipe they get room enough to stay readable and searchable."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)


@contextmanager
def compile_progress(label: str, quiet: bool) -> Iterator[Report | None]:
    """A bar on stderr that counts kernels; silent when quiet or not on a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[kernel]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"compiling {label}", total=None, kernel="")

        def report(done: int, total: int, kernel: str) -> None:
            bar.update(task, completed=done, total=total, kernel=kernel)

        yield report


def byte_text(count: int) -> str:
    """A number of bytes for people."""
    if count < 10_000:
        return f"{count} B"
    return f"{count / 1e3:,.1f} kB" if count < 10_000_000 else f"{count / 1e6:,.1f} MB"
