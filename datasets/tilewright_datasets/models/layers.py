"""Seeded layers that several families share."""

import math

import numpy as np

from tilewright_datasets.writer import Array, Draws, GraphWriter

CLASSES = 1000
_IMAGES_MEASURED = 2
TORCH_EPSILON = 1e-5


def he_conv(draws: Draws, outputs: int, inputs_per_group: int, kernel: int) -> Array:
    """OIHW weights with He's variance 2 / fan-in, which keeps the activations' size through ReLU."""
    fan_in = inputs_per_group * kernel * kernel
    return draws.normal((outputs, inputs_per_group, kernel, kernel), math.sqrt(2 / fan_in))


def small_bias(draws: Draws, size: int) -> Array:
    """Biases around zero with standard deviation 0.01."""
    return draws.normal((size,), 0.01)


def dense(draws: Draws, outputs: int, inputs: int) -> Array:
    """[outputs, inputs] weights with variance 1 / inputs."""
    return draws.normal((outputs, inputs), math.sqrt(1 / inputs))


def conv_batch_norm(
    graph: GraphWriter,
    draws: Draws,
    name: str,
    x: str,
    channels: tuple[int, int],
    *,
    kernel: int,
    stride: int = 1,
    group: int = 1,
) -> str:
    """Convolution without bias, padding (kernel − 1) / 2, then batch normalisation, not yet measured.

    `channels` is (input, output). gamma is uniform in 0.8–1.2, beta 0.1 · N(0, 1).
    """
    inputs, outputs = channels
    pad = (kernel - 1) // 2
    weight = he_conv(draws, outputs, inputs // group, kernel)
    x = graph.conv(f"{name}.conv", x, weight, None, stride=stride, pads=(pad, pad, pad, pad), group=group)
    return seeded_batch_norm(graph, draws, f"{name}.bn", x, outputs)


def seeded_batch_norm(graph: GraphWriter, draws: Draws, name: str, x: str, channels: int) -> str:
    """Batch normalisation whose mean 0 and variance 1 are placeholders until the graph is measured."""
    gamma = draws.uniform((channels,), 0.8, 1.2)
    beta = draws.normal((channels,), 0.1)
    mean, variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)
    return graph.batch_norm(name, x, gamma, beta, mean, variance, TORCH_EPSILON)


def sample_images(draws: Draws, size: int = 224) -> Array:
    """A batch that looks like normalised images to batch statistics: float32 [2, 3, size, size], N(0, 1).

    Half of the variance is noise per pixel, half is constant over blocks of 16 × 16, as in a picture with
    surfaces.
    """
    coarse = draws.normal((_IMAGES_MEASURED, 3, size // 16, size // 16), math.sqrt(0.5))
    surfaces = coarse.repeat(16, axis=2).repeat(16, axis=3)
    return surfaces + draws.normal(surfaces.shape, math.sqrt(0.5))
