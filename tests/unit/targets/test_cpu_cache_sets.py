"""Which channels-last tensors get a gap after the channels of every pixel."""

from __future__ import annotations

import pytest

from tilewright.dtypes import F32
from tilewright.machine import Machine
from tilewright.ops.windows import Window
from tilewright.targets.cpu.cache_sets import channel_gap
from tilewright.types import TensorType

MACHINE = Machine("m", "x86_64-unknown-linux-gnu", 512, 32, caches=(32768, 1 << 20))


@pytest.mark.parametrize(
    ("channels", "extent", "stride", "gap"),
    [
        (1024, 7, 1, 32),
        (1024, 56, 1, 32),  # all pixels in one set, whatever the size of the tensor
        (512, 14, 1, 32),
        (512, 28, 1, 0),  # 1.6 MB do not stay in the second-level cache
        (512, 28, 2, 32),  # every second pixel is read: a way apart
        (256, 14, 1, 0),
        (960, 7, 1, 0),
        (1024, 1, 1, 0),  # one pixel has no neighbours
    ],
)
def test_gaps(channels: int, extent: int, stride: int, gap: int) -> None:
    x = TensorType(F32, (1, channels, extent, extent))
    assert channel_gap(x, Window(extent, 1, stride), MACHINE) == gap
