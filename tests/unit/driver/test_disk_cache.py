"""The caches on disk: concurrent processes, damage, bounds, and folders that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.disk_cache import LIMIT_BYTES, DiskCache
from tilewright.errors import CacheError


def make(folder: Path, limit: int = LIMIT_BYTES) -> DiskCache:
    return DiskCache(folder, "objects", ".o", limit)


def test_what_was_put_comes_back(tmp_path: Path) -> None:
    cache = make(tmp_path)
    assert cache.get("a" * 64) is None
    cache.put("a" * 64, b"object")
    assert make(tmp_path).get("a" * 64) == b"object"
    assert [path.suffix for path in cache.room.folder.iterdir()] == [".o"]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_damaged_file_is_removed(tmp_path: Path, damage: str) -> None:
    cache = make(tmp_path)
    cache.put("b" * 64, b"object" * 100)
    (path,) = cache.room.folder.iterdir()
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes({"flip": content, "cut": content[:40], "empty": b""}[damage])
    assert cache.get("b" * 64) is None
    assert not path.exists()
    cache.put("b" * 64, b"again")
    assert cache.get("b" * 64) == b"again"


def test_least_recently_used_objects_go_first(tmp_path: Path) -> None:
    cache = make(tmp_path, limit=5000)
    for n in range(4):
        cache.put(f"{n}" * 64, bytes(1000))
        os.utime(cache.room.folder / f"{str(n) * 64}.o", (n + 1, n + 1))
    assert cache.get("0" * 64) is not None  # used just now
    cache.put("5" * 64, bytes(1000))
    assert cache.get("0" * 64) is not None
    assert cache.get("1" * 64) is None
    assert cache.get("5" * 64) is not None
    assert sum(path.stat().st_size for path in cache.room.folder.iterdir()) <= 5000


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(CacheError, match="choose another with --cache-dir"):
        DiskCache(blocked, "objects", ".o")


def test_many_processes_share_a_folder(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from tilewright.disk_cache import DiskCache
cache = DiskCache(Path({str(tmp_path)!r}), "objects", ".o", limit=20000)
for turn in range(150):
    key = format(turn % 30, "064d")
    found = cache.get(key)
    assert found in (None, key.encode() * 20), found
    cache.put(key, key.encode() * 20)
"""
    processes = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert all(path.suffix == ".o" for path in (tmp_path / "objects").iterdir())
