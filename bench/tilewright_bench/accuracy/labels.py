"""Label offsets: the mistake that shifts every class by one and raises no error."""

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import UsageError

IMAGENET_CLASSES = 1000
OFFSETS = (-1, 0, 1)
ENOUGH_IMAGES = 10


@dataclass(frozen=True)
class OffsetCheck:
    """Top-1 hits under each neighbouring offset, and the one that fits clearly better than the one in use."""

    hits: dict[int, int]
    better: int | None


def chosen_offset(classes: int, given: int | None, of_model: int) -> int:
    """The output index of class 0: as given, else as the model's description says.

    Raises UsageError for 1001 outputs against labels 0–999 when neither says so: index 0 may be a background
    class, and guessing would shift every label.
    """
    if given is not None:
        return given
    if classes == IMAGENET_CLASSES + 1 and of_model == 0:
        raise UsageError(
            "the model has 1001 outputs and the labels are 0 to 999: give --label-offset 1 when output 0 is "
            "a background class, or --label-offset 0 when the extra class is the last one"
        )
    return of_model


def check_offset(tops: Sequence[Sequence[int]], labels: Sequence[int], used: int) -> OffsetCheck:
    """Count top-1 hits with the offset in use and its neighbours.

    Another offset is 'better' when it hits at least twice as often, on enough images not to be chance.
    """
    hits = {
        used + step: sum(top[0] == label + used + step for top, label in zip(tops, labels, strict=True))
        for step in OFFSETS
    }
    best = max(hits, key=lambda offset: (hits[offset], offset == used))
    clear = len(labels) >= ENOUGH_IMAGES and hits[best] >= max(3, 2 * hits[used])
    return OffsetCheck(hits, best if best != used and clear else None)
