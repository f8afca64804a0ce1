"""What a run can find wrong with its data: a kernel reports a number, the runtime raises the words."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

REASONS = (
    "nothing is wrong",
    "an index in the data lies outside the axis that it selects from",
    "the data is no picture that can be decoded here; BMP, PNM, TIFF and PNG can be",
    "the picture is of a kind that cannot be decoded here (compressed BMP or TIFF, interlaced PNG, PNM in "
    "text or of other than 255 levels, ...); save it in another way",
    "the picture's file is damaged or cut short",
    "the picture has another size than the model declares for it",
)
NOTHING, INDEX, PICTURE_FORMAT, PICTURE_KIND, PICTURE_DAMAGE, PICTURE_SIZE = range(len(REASONS))


def fault_number(kernel: str) -> int:
    """What stands for a kernel in a fault; never 0, below 1 << 40."""
    return 1 + zlib.crc32(kernel.encode())


def fault_of(kernel: int, reason: int) -> int:
    """A fault: the number of a kernel, and above it a reason."""
    return kernel + (reason << 40)


def fault_text(fault: int, kernels: Iterable[str]) -> str:
    """Which of the kernels met the fault, and the reason."""
    reason, number = divmod(fault, fault_of(0, 1))
    names = [name for name in kernels if fault_number(name) == number]
    where = f"kernel '{names[0]}'" if names else "a kernel"
    return f"{where}: {REASONS[reason]}"
