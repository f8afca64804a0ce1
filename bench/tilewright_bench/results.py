"""Writing results: JSON, CSV, Markdown; to a file at once or not at all, or JSON to stdout."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.errors import UsageError


def as_json(result: Mapping[str, Any]) -> str:
    """Strict JSON: no NaN and no infinity, which most readers refuse; they become null."""
    return json.dumps(_finite(result), indent=1, allow_nan=False) + "\n"


def write_result(result: Mapping[str, Any], destination: str) -> None:
    """Write as JSON to a path, or to stdout when it is '-'. Raises UsageError when the path cannot be
    written.
    """
    if destination == "-":
        sys.stdout.write(as_json(result))
        sys.stdout.flush()
        return
    write_text(as_json(result), Path(destination))


def write_text(text: str, path: Path) -> None:
    """Replace the file's content in one step. Raises UsageError when its folder cannot be written."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(text)
        os.chmod(file.name, 0o644)  # a temporary file is private, a result is not
        os.replace(file.name, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def check_writable(destination: str | None) -> None:
    """Refuse before a long run what could not be written after it. Raises UsageError."""
    if destination in (None, "-"):
        return
    folder = Path(str(destination)).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {destination}: the folder {folder} does not exist or is read-only")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
