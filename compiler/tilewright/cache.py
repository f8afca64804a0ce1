"""The cache of whole artefacts: shared by concurrent processes, bounded, and never trusted.

An entry is an artefact file named by the digest of everything that it depends on. A damaged one is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock

import tilewright
from tilewright.disk_cache import BoundedFolder
from tilewright.errors import ArtefactError, CacheError
from tilewright.runtime.artefact import FORMAT_VERSION, read_artefact, write_artefact
from tilewright.runtime.package import Package
from tilewright.sources import digest_of_sources

LIMIT_BYTES = 4 << 30
ROOMS = ("artefacts", "kernels", "objects")  # folders whose contents compilation can make again
_MAKERS = ("llvmlite", "numpy", "onnx")


class ArtefactCache:
    """A folder of artefacts, the least recently used of which go when it exceeds `limit` bytes."""

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES) -> None:
        """folder: of all caches; artefacts get a folder in it.

        Raises CacheError when it cannot be written.
        """
        self._room = BoundedFolder(folder / "artefacts", ".tw", limit)

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Keeps other processes from making the same entry meanwhile."""
        lock = FileLock(self._room.folder / f"{key[:2]}.lock")
        try:
            lock.acquire()
        except OSError as error:
            raise self._room.unwritable(error) from error
        try:
            yield
        finally:
            lock.release()

    def get(self, key: str) -> Package | None:
        """The entry, or None when there is none; a damaged one is removed."""
        path = self._room.path(key)
        if not path.exists():
            return None
        try:
            package = read_artefact(path)
        except (ArtefactError, OSError):
            path.unlink(missing_ok=True)
            return None
        self._room.used(path)
        return package

    def put(self, key: str, package: Package) -> None:
        """Adds an entry and drops old ones. Raises CacheError when it cannot be written."""
        path = self._room.path(key)
        try:
            write_artefact(package, path)
        except ArtefactError as error:
            raise CacheError(f"{error}; choose another folder with --cache-dir") from error
        self._room.added(path)


def make_key(digest: str, facts: Mapping[str, Any]) -> str:
    """The name of an entry, from the model's digest, facts (JSON values) and the versions of what makes
    artefacts.
    """
    described = {"model": digest, "facts": dict(facts), "makers": _makers()}
    return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


@cache
def _makers() -> list[str]:
    return [
        f"format {FORMAT_VERSION}",
        tilewright.__version__,
        digest_of_sources("**/*.py"),
        *map(_version, _MAKERS),
    ]


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} absent"
