"""From what the user wrote to a model file: a path, or a name that an installed package knows."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from tilewright.errors import UsageError
from tilewright.runtime.artefact import is_artefact

GROUP = "tilewright.models"


def model_file(name: str) -> Path:
    """The file of a model. Raises UsageError when the name is neither a file nor known to any package."""
    path = Path(name)
    if path.is_file():
        return path
    for point in entry_points(group=GROUP):
        find: Callable[[str], Path | None] = point.load()
        found = find(name)
        if found is not None:
            return found
    if path.exists():
        raise UsageError(f"model '{name}' is a folder; give an ONNX file or a zoo name")
    raise UsageError(f"no model '{name}': neither a file nor a zoo name; `tilewright models` lists the zoo")


def artefact_file(name: str) -> Path | None:
    """The file when it is a saved artefact, whatever it is called."""
    path = Path(name)
    return path if path.is_file() and (is_artefact(path) or path.suffix == ".tw") else None
