"""Writing results: JSON, CSV, Markdown; to a file at once or not at all, or JSON to stdout."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    """Replace the file's content in one step, or leave the file as it was; write to what is no file, such as
    a pipe. Raises UsageError when that fails.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if _is_device(path):
            path.write_text(text, encoding="utf-8")
            return
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is there only after a failure or an interruption
            draft.unlink()


def check_writable(destination: str | None, models: Sequence[str] = ()) -> None:
    """Refuse before a long run what could not be written after it, and a model. Raises UsageError."""
    if destination in (None, "-"):
        return
    path = Path(str(destination))
    if path.exists() and any(Path(model).exists() and path.samefile(model) for model in models):
        raise UsageError(f"cannot write {path}: it is the model, which would be lost; give another file")
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if _is_device(path) and os.access(path, os.W_OK):
        return
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} does not exist or is read-only")


def _is_device(path: Path) -> bool:
    """A pipe or a device, which is written to and not replaced."""
    return path.exists() and not path.is_file()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
