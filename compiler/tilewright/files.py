"""Errors of the system that name the file they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What the system refuses in this block is said of `path`.

    A failing write names no file, and a failing open the temporary one. Raises OSError with the same number.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not from the system
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
