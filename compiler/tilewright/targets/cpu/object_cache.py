"""The cache of kernel objects on disk: shared by concurrent processes, bounded, and never trusted.

A file is named by the digest of the LLVM text, the machine and the versions of what compiles it, and begins
with a checksum of the rest. Files appear whole, by renaming; a damaged one is removed and made anew.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import llvmlite.binding as llvm

from tilewright.errors import CacheError
from tilewright.machine import Machine
from tilewright.targets.cpu.objects import VERSION

LIMIT_BYTES = 256 << 20
_DIGEST_BYTES = 32
_SLACK = 0.9  # dropping goes this far below the limit, so that not every put has to drop


_RECOUNT = 256  # puts after which a folder is measured again: other processes fill it too


@dataclass
class _Tally:
    """What this process knows of a folder's size in bytes; measuring thousands of files takes a while."""

    size: int
    puts: int = 0


_tallies: dict[Path, _Tally] = {}


@cache
def _compiler() -> str:
    """Versions of what compiles objects."""
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return "\0".join((version("llvmlite"), llvm_version, str(VERSION)))


def object_key(text: str, machine: Machine) -> str:
    """The name of the object of an LLVM module on a machine."""
    return sha256("\0".join((text, machine.key, _compiler())).encode()).hexdigest()


class ObjectCache:
    """A folder of objects, the least recently used of which go when it exceeds `limit` bytes."""

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES) -> None:
        """folder: of all caches; objects get a folder in it. Raises CacheError when it cannot be written."""
        self.folder = folder / "objects"
        self.limit = limit
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise self._unwritable(error) from error
        self._tally = _tallies.setdefault(self.folder.resolve(), _Tally(-1))
        if self._tally.size < 0:
            self._tally.size = self._measured()

    def get(self, key: str) -> bytes | None:
        """The object, or None when there is none; a damaged file is removed."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unwritable(error) from error
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if sha256(data).digest() != digest:
            path.unlink(missing_ok=True)
            return None
        with suppress(FileNotFoundError):  # another process dropped it meanwhile; the content is ours already
            os.utime(path)  # the time of last use, by which files are dropped
        return data

    def put(self, key: str, data: bytes) -> None:
        """Adds an object and drops old ones. Raises CacheError when it cannot be written."""
        name = ""
        try:
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=f"{key[:8]}-", delete=False) as file:
                name = file.name
                file.write(sha256(data).digest() + data)
            os.replace(name, self._path(key))
        except OSError as error:
            raise self._unwritable(error) from error
        finally:
            if name:
                Path(name).unlink(missing_ok=True)  # there only if it was not renamed
        tally = self._tally
        tally.size += len(data) + _DIGEST_BYTES
        tally.puts += 1
        if tally.puts % _RECOUNT == 0:
            tally.size = self._measured()
        if tally.size > self.limit:
            self._drop_old(self._path(key))

    def _measured(self) -> int:
        return sum(self._size(path) for path in self.folder.glob("*.o"))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.o"

    def _drop_old(self, keep: Path) -> None:
        found = [(self._time(path), self._size(path), path) for path in self.folder.glob("*.o")]
        tally = self._tally
        tally.size = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if tally.size <= self.limit * _SLACK:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                tally.size -= size

    @staticmethod
    def _size(path: Path) -> int:
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0  # dropped by another process

    @staticmethod
    def _time(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def _unwritable(self, error: OSError) -> CacheError:
        reason = error.strerror or str(error)
        return CacheError(
            f"cache folder {self.folder} is not usable: {reason}; choose another with --cache-dir"
        )


def open_cache(chosen: Path | None, default: Path) -> ObjectCache | None:
    """The cache in the folder that the user chose, else in the default one.

    Raises CacheError when the chosen folder cannot be written. Without a writable default folder there is no
    cache, and one warning on stderr says so.
    """
    if chosen is not None and chosen != default:
        return ObjectCache(chosen)
    try:
        return ObjectCache(default)
    except CacheError as error:
        print(f"warning: {error}; kernels are compiled anew each time", file=sys.stderr)
        return None
