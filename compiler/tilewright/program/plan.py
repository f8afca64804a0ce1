"""The static memory plan: one arena, every offset fixed at compile time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Byte offsets of all buffers, by name, in their space.

    arena_bytes: peak of the arena; mutable_bytes, constant_bytes: sizes of the other regions;
    sum_bytes: what the arena would be without sharing; lower_bound: most bytes alive at one time.
    """

    offsets: Mapping[str, int]
    arena_bytes: int
    mutable_bytes: int
    constant_bytes: int
    sum_bytes: int
    lower_bound: int
