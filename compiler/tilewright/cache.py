"""The cache of whole artefacts: shared by concurrent processes, bounded, and never trusted.

An entry is an artefact file named by the digest of everything that it depends on. A damaged one is made anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock

import tilewright
from tilewright.errors import ArtefactError, CacheError
from tilewright.runtime.artefact import FORMAT_VERSION, read_artefact, write_artefact
from tilewright.runtime.package import Package
from tilewright.sources import digest_of_sources

LIMIT_BYTES = 4 << 30
ROOMS = ("artefacts", "kernels", "objects")  # folders whose contents compilation can make again
_RECOUNT = 256  # puts after which a folder is measured again: other processes fill it too
_tallies: dict[Path, tuple[int, int]] = {}  # by folder: puts of this process, bytes
_MAKERS = ("llvmlite", "numpy", "onnx")


class ArtefactCache:
    """A folder of artefacts, the least recently used of which go when it exceeds `limit` bytes."""

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES) -> None:
        """folder: of all caches; artefacts get a folder in it.

        Raises CacheError when it cannot be written.
        """
        self.folder = folder / "artefacts"
        self.limit = limit
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise CacheError(f"cache folder {self.folder} is not writable; choose another with --cache-dir")

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Keeps other processes from making the same entry meanwhile."""
        lock = FileLock(self.folder / f"{key[:2]}.lock")
        try:
            lock.acquire()
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        try:
            yield
        finally:
            lock.release()

    def get(self, key: str) -> Package | None:
        """The entry, or None when there is none; a damaged one is removed."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            package = read_artefact(path)
            os.utime(path)  # the time of last use, by which entries are dropped
        except (ArtefactError, OSError):
            path.unlink(missing_ok=True)
            return None
        return package

    def put(self, key: str, package: Package) -> None:
        """Adds an entry and drops old ones. Raises CacheError when it cannot be written."""
        try:
            write_artefact(package, self._path(key))
        except ArtefactError as error:
            raise CacheError(f"{error}; choose another folder with --cache-dir") from error
        if self._may_exceed(self._path(key)):
            self._drop_old(keep=self._path(key))

    def _may_exceed(self, added: Path) -> bool:
        """Whether to look for entries to drop. Measuring a large folder takes a while, so this process adds
        up what it puts, and measures first, and now and then.
        """
        puts, size = _tallies.get(self.folder, (0, 0))
        puts, size = puts + 1, size + _size(added)
        if puts % _RECOUNT == 1:
            size = sum(stat.st_size for _, stat in _existing(self.folder))
        _tallies[self.folder] = puts, size
        return size > self.limit

    def entries(self) -> list[Path]:
        """Files of all entries, least recently used first."""
        found = [(stat.st_mtime, path) for path, stat in _existing(self.folder)]
        return [path for _, path in sorted(found)]

    def clear(self) -> int:
        """Removes all entries; the number of bytes that became free."""
        return sum(_remove(path) for path in self.entries())

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.tw"

    def _drop_old(self, keep: Path) -> None:
        sizes = {path: stat.st_size for path, stat in _existing(self.folder)}
        total = sum(sizes.values())
        for path in self.entries():
            if total <= self.limit:
                break
            if path != keep and path in sizes:
                total -= _remove(path)
        _tallies[self.folder] = 1, total


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # another process dropped it meanwhile


def _existing(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Entries with their file status; one that another process removes meanwhile is left out."""
    for path in folder.glob("*.tw"):
        try:
            yield path, path.stat()
        except FileNotFoundError:
            continue


def _remove(path: Path) -> int:
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0  # another process was faster
    return size


def _unwritable(folder: Path, error: OSError) -> CacheError:
    reason = error.strerror or str(error)
    return CacheError(f"cache folder {folder} cannot be written: {reason}; choose another with --cache-dir")


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
