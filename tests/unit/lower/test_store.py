"""Kernels on disk: what comes back, and what is no kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.disk_cache import DiskCache
from tilewright.loops.parse import parse_kernel
from tilewright.lower.kernel import Lowered
from tilewright.lower.store import ROOM, SUFFIX, KernelStore
from tilewright.program.callee import Callee

TEXT = """kernel f_12(@in x: f32[2,3], @out y: f32[2,3], @scratch t: f32[3] in heap) inplace(1,0) {
  serial for i in 0 .. +2 {
    vectorized for j in 0 .. +3 {
      y[i, j] = (x[i, j] * 0.5:f32)
    }
  }
}
"""
NOTES = {"template": "elementwise", "schedule": "vectorize(j)\nunroll(i)", "source": "default"}


class Target:
    name = "cpu"

    def __init__(self, schedule_key: str) -> None:
        self.schedule_key = schedule_key


def store(folder: Path, schedule_key: str = "one") -> KernelStore:
    return KernelStore(DiskCache(folder, ROOM, SUFFIX), Target(schedule_key))


def test_a_kernel_comes_back_whole(tmp_path: Path) -> None:
    kernel = parse_kernel(TEXT)
    assert store(tmp_path).get("group") is None
    store(tmp_path).put("group", Lowered(Callee.of(kernel), NOTES))
    found = store(tmp_path).get("group")
    assert found is not None
    assert "kernel" not in vars(found.callee)  # not read before somebody asks
    assert found == Lowered(Callee.of(kernel), NOTES)
    assert found.callee.work.flops == 6
    assert found.callee.kernel == kernel


def test_other_groups_and_other_schedules_have_kernels_of_their_own(tmp_path: Path) -> None:
    store(tmp_path).put("group", Lowered(Callee.of(parse_kernel(TEXT)), NOTES))
    assert store(tmp_path).get("other group") is None
    assert store(tmp_path, "two").get("group") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]\n" + TEXT.encode(),
        b'{"work": {"flops": 6}}\n' + TEXT.encode(),
        b'{"work": {"flops": 6}, "notes": {}}\n',
        b'{"work": {"flops": 6}, "notes": {}}\nkernel f(@back x: f32[2]) {\n}\n',
    ],
)
def test_what_is_no_kernel_is_removed(tmp_path: Path, content: bytes) -> None:
    lowered = Lowered(Callee.of(parse_kernel(TEXT)), NOTES)
    store(tmp_path).put("group", lowered)
    (path,) = (tmp_path / ROOM).iterdir()
    DiskCache(tmp_path, ROOM, SUFFIX).put(path.stem, content)
    assert store(tmp_path).get("group") is None
    assert not path.exists()
