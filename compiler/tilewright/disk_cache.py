"""A cache on disk of what can be made again: shared by concurrent processes, bounded, and never trusted.

An entry is a file named by the digest of all that it depends on, and begins with a checksum of the rest.
Files appear whole, by renaming; a damaged one is removed and made anew.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
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

    size: int = 0
    puts: int = 0


_tallies: dict[Path, _Tally] = {}


class BoundedFolder:
    """Files of one suffix, the least recently used of which go when they exceed `limit` bytes."""

    def __init__(self, folder: Path, suffix: str, limit: int) -> None:
        """Raises CacheError when the folder cannot be written."""
        self.folder, self.suffix, self.limit = folder, suffix, limit
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise self.unwritable(error) from error
        self._tally = _tallies.setdefault(folder.resolve(), _Tally())

    def path(self, key: str) -> Path:
        return self.folder / f"{key}{self.suffix}"

    def used(self, path: Path) -> None:
        """Notes that a file is used now, where it still exists and is ours."""
        with suppress(OSError):
            os.utime(path)

    def added(self, path: Path) -> None:
        """Counts a new file, and drops old ones for it."""
        tally = self._tally
        tally.puts += 1
        if tally.puts % _RECOUNT == 1:
            tally.size = sum(size for _, size, _ in self._files())
        else:
            tally.size += sum(size for _, size, _ in _existing([path]))
        if tally.size > self.limit:
            self._drop_old(path)

    def unwritable(self, error: OSError) -> CacheError:
        reason = error.strerror or str(error)
        return CacheError(
            f"cache folder {self.folder} is not usable: {reason}; choose another with --cache-dir"
        )

    def _files(self) -> list[tuple[float, int, Path]]:
        return list(_existing(self.folder.glob(f"*{self.suffix}")))

    def _drop_old(self, keep: Path) -> None:
        found = self._files()
        tally = self._tally
        tally.size = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if tally.size <= self.limit * _SLACK:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                tally.size -= size


def _existing(paths: Iterable[Path]) -> Iterator[tuple[float, int, Path]]:
    """(time of last use, bytes, path) of files; one that another process removes meanwhile is left out."""
    for path in paths:
        with suppress(FileNotFoundError):
            stat = path.stat()
            yield stat.st_mtime, stat.st_size, path


class DiskCache:
    """Entries of bytes in a folder of their own."""

    def __init__(self, folder: Path, room: str, suffix: str, limit: int = LIMIT_BYTES) -> None:
        """folder: of all caches; room: the folder in it for this one, whose files end in `suffix`.

        Raises CacheError when it cannot be written.
        """
        self.room = BoundedFolder(folder / room, suffix, limit)

    def get(self, key: str) -> bytes | None:
        """The entry, or None when there is none; a damaged file is removed."""
        path = self.room.path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.room.unwritable(error) from error
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if sha256(data).digest() != digest:
            self.drop(key)
            return None
        self.room.used(path)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Adds an entry and drops old ones. Raises CacheError when it cannot be written."""
        folder, path = self.room.folder, self.room.path(key)
        name = ""
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{key[:8]}-", delete=False) as file:
                name = file.name
                file.write(sha256(data).digest() + data)
            os.replace(name, path)
        except OSError as error:
            raise self.room.unwritable(error) from error
        finally:
            if name:
                Path(name).unlink(missing_ok=True)  # there only if it was not renamed
        self.room.added(path)

    def drop(self, key: str) -> None:
        """Removes an entry, if there is one."""
        self.room.path(key).unlink(missing_ok=True)
