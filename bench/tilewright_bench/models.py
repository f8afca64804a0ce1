"""From what the user wrote to a model file: a zoo name or a path."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import UsageError
from tilewright_datasets import zoo


@dataclass(frozen=True)
class ModelFile:
    """A model as the user named it, and the file behind it."""

    name: str
    path: Path

    @property
    def sha256(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def suite_names(suite: str) -> list[str]:
    """The zoo names of a suite. Raises UsageError that lists the suites when there is none of that name."""
    return zoo.suite(suite)


def find_model(name: str) -> ModelFile:
    """The model of that zoo name or path. Raises UsageError that lists the zoo when it is neither."""
    path = Path(name)
    if path.is_file():
        return ModelFile(name, path)
    found = zoo.model_path(name)
    if found is None:
        raise UsageError(
            f"no model '{name}': neither a file nor a zoo name; the zoo has {', '.join(zoo.model_names())}"
        )
    return ModelFile(name, found)
