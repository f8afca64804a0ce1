"""Where channels-last pixels would drive each other out of the first-level cache.

A register tile reads one channel of up to 14 pixels, then the next channel, so a cache line of each pixel
should stay for 16 steps. Lines whose addresses agree modulo a way (4 kB) compete for the 8 lines of one set:
with 1024 channels all pixels do. A gap after the channels of every pixel spreads them over all sets.

Measured on a Zen 4 core: 1x1 convolutions of 1024 and 2048 channels take 0.7 to 0.75 of the time, of 512
channels 0.93 to 0.98.
"""

from __future__ import annotations

from tilewright.machine import Machine
from tilewright.ops.windows import Window
from tilewright.types import TensorType

WAY = 4096  # bytes: ways of first-level caches are a page, so that they can be searched by address at once
GAP = 128  # bytes: second-level caches fetch lines in pairs


def channel_gap(x: TensorType, columns: Window, machine: Machine) -> int:
    """Elements to leave free after the channels of each pixel of x, which lies channels last; mostly 0.

    columns: how windows move along the innermost axis of the image. Two pixels a way apart share one set;
    half a way apart they share two, which hardly matters in tensors that the second-level cache cannot hold.
    """
    element = x.dtype.bytes
    distance = columns.stride * x.shape[1] * element
    close = x.size * element <= machine.caches[min(1, len(machine.caches) - 1)]
    conflicting = distance % WAY == 0 or (close and distance % (WAY // 2) == 0)
    return GAP // element if conflicting and columns.outputs > 1 else 0
