"""Seeded inputs: the same for every engine, every process and every order of the inputs."""

import zlib
from collections.abc import Sequence

import numpy as np

from tilewright.errors import UsageError
from tilewright_bench.engines.base import Array, TensorInfo

# Integers are mostly tokens that index a table: small enough for any vocabulary.
LARGEST_INTEGER = 1000


def seeded_inputs(tensors: Sequence[TensorInfo], seed: int = 0) -> dict[str, Array]:
    """One array per input: standard normal floats, integers in [0, 1000) or the type's range, random
    booleans.

    Raises UsageError for an element type that has no such values.
    """
    return {tensor.name: _seeded(tensor, seed) for tensor in tensors}


def _seeded(tensor: TensorInfo, seed: int) -> Array:
    generator = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    dtype = np.dtype(tensor.dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, tensor.shape).astype(np.bool_)
    if np.issubdtype(dtype, np.integer):
        limit = min(LARGEST_INTEGER, int(np.iinfo(dtype).max) + 1)
        return generator.integers(0, limit, tensor.shape, dtype=dtype)
    # bfloat16 and its like are no np.floating, but convert from float32.
    if np.issubdtype(dtype, np.floating) or dtype.kind == "V":
        return generator.standard_normal(tensor.shape, dtype=np.float32).astype(dtype)
    raise UsageError(
        f"input '{tensor.name}' has the element type {dtype}, for which there are no seeded values"
    )
