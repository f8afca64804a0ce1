"""Importing this module fills the registry with every operator."""

from tilewright.ops import (
    broadcast,
    control,
    convolution,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    softmax,
    storage,
    transposed_convolution,
)

__all__ = [
    "broadcast",
    "control",
    "convolution",
    "elementwise",
    "indexing",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "softmax",
    "storage",
    "transposed_convolution",
]
