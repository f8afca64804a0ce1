"""Files that are made once: built or fetched under a lock, written aside, then renamed into place."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from tilewright.errors import CacheError

_BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def make_once(target: Path, make: Callable[[Path], None]) -> Path:
    """`target`, made by `make(temporary path)` when it does not exist yet.

    Concurrent processes wait for the one that makes it. An interrupted or failed `make` leaves nothing
    behind. Raises CacheError when the folder cannot be written or is full; other errors of `make` pass
    through.
    """
    if target.is_file():
        return target
    prepare_folder(target.parent)
    with FileLock(target.with_name(target.name + ".lock")):
        if target.is_file():
            return target
        with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            _fill(target, draft, make)
            os.replace(draft, target)
    return target


def _fill(target: Path, draft: Path, make: Callable[[Path], None]) -> None:
    try:
        make(draft)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise CacheError(
            f"{target} cannot be written: {error.strerror}; set TILEWRIGHT_CACHE_DIR to one with more room"
        ) from error


def prepare_folder(folder: Path) -> None:
    """Create `folder`; raises CacheError when it cannot be created or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CacheError(
            f"cache folder {folder} cannot be written ({error.strerror or error}); "
            "set TILEWRIGHT_CACHE_DIR to a folder that can"
        ) from error
