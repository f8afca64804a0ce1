"""Importing this module fills the registry with every operator."""

from tilewright.ops import (
    broadcast,
    convolution,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pooling,
    reduction,
)

__all__ = [
    "broadcast",
    "convolution",
    "elementwise",
    "indexing",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "reduction",
]
