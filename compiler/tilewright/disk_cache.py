"""A cache on disk of what can be made again: shared by concurrent processes, bounded, and never trusted.

An entry is a file named by the digest of all that it depends on, and begins with a checksum of the rest.
Files appear whole, by renaming; a damaged one is removed and made anew.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tilewright.errors import CacheError

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
_warned: set[Path] = set()


class DiskCache:
    """A folder of entries, the least recently used of which go when it exceeds `limit` bytes."""

    def __init__(self, folder: Path, room: str, suffix: str, limit: int = LIMIT_BYTES) -> None:
        """folder: of all caches; room: the folder in it for this one, whose files end in `suffix`.

        Raises CacheError when it cannot be written.
        """
        self.folder = folder / room
        self.suffix = suffix
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
        """The entry, or None when there is none; a damaged file is removed."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unwritable(error) from error
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if sha256(data).digest() != digest:
            self.drop(key)
            return None
        with suppress(FileNotFoundError):  # another process dropped it meanwhile; the content is ours already
            os.utime(path)  # the time of last use, by which files are dropped
        return data

    def put(self, key: str, data: bytes) -> None:
        """Adds an entry and drops old ones. Raises CacheError when it cannot be written."""
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

    def drop(self, key: str) -> None:
        """Removes an entry, if there is one."""
        self._path(key).unlink(missing_ok=True)

    def _measured(self) -> int:
        return sum(self._size(path) for path in self._files())

    def _files(self) -> list[Path]:
        return list(self.folder.glob(f"*{self.suffix}"))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{self.suffix}"

    def _drop_old(self, keep: Path) -> None:
        found = [(self._time(path), self._size(path), path) for path in self._files()]
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


def open_cache(chosen: Path | None, default: Path, room: str, suffix: str) -> DiskCache | None:
    """The cache in the folder that the user chose, else in the default one.

    Raises CacheError when the chosen folder cannot be written. Without a writable default folder there is no
    cache, and one warning on stderr says so.
    """
    if chosen is not None and chosen != default:
        return DiskCache(chosen, room, suffix)
    try:
        return DiskCache(default, room, suffix)
    except CacheError as error:
        if default not in _warned:
            print(f"warning: {error}; kernels are compiled anew each time", file=sys.stderr)
        _warned.add(default)
        return None
