"""The cache of artefacts: bounded, shared, and not trusted."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tilewright.cache import ArtefactCache
from tilewright.errors import CacheError
from tilewright.runtime.package import Package
from tilewright.segment import Port, Segment

PORTS = (Port("x", "f32", (1,), 0),)
SEGMENT = Segment("none", b"code", np.zeros(100_000, np.uint8), PORTS, (replace(PORTS[0], name="y"),), 0, 0)
PACKAGE = Package("m", "none", (SEGMENT,), ("x",), ("y",))


def test_what_is_put_is_found(tmp_path):
    cache = ArtefactCache(tmp_path / "c")
    assert cache.get("k") is None
    cache.put("k", PACKAGE)
    found = cache.get("k")
    assert found.segments[0].code == b"code"
    assert ArtefactCache(tmp_path / "c").get("k") is not None


@pytest.mark.parametrize("content", [b"", b"junk", b"TILEWRT\x00" + bytes(100)])
def test_a_damaged_entry_is_forgotten(tmp_path, content):
    cache = ArtefactCache(tmp_path)
    cache.put("k", PACKAGE)
    (entry,) = (tmp_path / "artefacts").iterdir()
    entry.write_bytes(content)
    assert cache.get("k") is None
    assert not entry.exists()


def test_the_least_recently_used_entries_go_first(tmp_path):
    cache = ArtefactCache(tmp_path, limit=380_000)
    for number, key in enumerate("abc"):
        cache.put(key, PACKAGE)
        os.utime(tmp_path / "artefacts" / f"{key}.tw", (number, number))
    cache.get("a")  # now the most recent
    cache.put("d", PACKAGE)
    assert {p.stem for p in (tmp_path / "artefacts").iterdir()} == {"a", "c", "d"}


def test_an_entry_larger_than_the_limit_stays_until_the_next(tmp_path):
    cache = ArtefactCache(tmp_path, limit=1)
    cache.put("a", PACKAGE)
    assert cache.get("a") is not None
    cache.put("b", PACKAGE)
    assert [p.stem for p in (tmp_path / "artefacts").iterdir()] == ["b"]


def test_only_one_at_a_time_makes_an_entry(tmp_path):
    cache, inside, most = ArtefactCache(tmp_path), [], []

    def make(_):
        with ArtefactCache(tmp_path).locked("key"):
            inside.append(1)
            most.append(len(inside))
            cache.put("key", PACKAGE)
            inside.pop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(8)))
    assert most == [1] * 8


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="--cache-dir"):
        ArtefactCache(tmp_path / "file")
