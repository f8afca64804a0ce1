"""Rows of tiles on small images: whatever they run along, nothing outside of a buffer is read or written."""

import random

import numpy as np
import pytest
from exact_products import convolution, held, model
from onnx import helper

import tilewright as tw
from tilewright.loops.interpret import interpret
from tilewright.targets.cpu import target


@pytest.fixture
def kernels(amx, monkeypatch):
    """Loop programs of the products in tiles that were compiled."""
    found = []
    write = target.kernel_text

    def keep(kernel, machine):
        text = write(kernel, machine)
        if "tdpbf16ps" in text:
            found.append(kernel)
        return text

    monkeypatch.setattr(target, "kernel_text", keep)
    return found


def random_network(seed, largest):
    """A convolution, and one whose result is added to it: the model, and what to feed it."""
    rng = random.Random(seed)
    taps = [rng.choice([1, 2, 3]), rng.choice([1, 3])]
    strides = [rng.choice([1, 1, 2]), rng.choice([1, 1, 2])]
    pads = [rng.randint(0, n // 2) for n in taps * 2]
    image = [rng.randint(t, largest) for t in taps]
    same = [rng.choice([1, 3]), rng.choice([1, 3, 5])]
    first = [rng.choice([16, 32]), rng.choice([8, 16, 24]), *taps]
    second = [first[0], first[0], *same]
    around = [n // 2 for n in same * 2]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=strides, pads=pads),
        helper.make_node("Conv", ["a", "v"], ["b"], pads=around),
        helper.make_node("Add", ["b", "a"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    shape = [rng.choice([1, 1, 2, 3]), first[1], *image]
    constants = {"w": held(first, seed), "v": held(second, seed + 1) / 16}
    return model(nodes, shape, constants), {"x": held(shape, seed + 2)}


@pytest.mark.parametrize("seed", range(20))
def test_random_networks(compiled, kernels, seed):
    data, feeds = random_network(seed, 11)
    found = compiled(data, threads=1 + seed % 2).run(feeds)["y"]
    wanted = tw.evaluate(data, feeds)["y"]
    assert np.linalg.norm(found - wanted) < 5e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("shape", "weights", "attrs"),
    [
        ([1, 32, 4, 3], [16, 32, 2, 2], {"pads": [1, 1, 0, 0]}),
        ([2, 16, 3, 5], [20, 16, 1, 1], {}),
        ([2, 32, 5, 7], [16, 32, 1, 2], {"strides": [2, 2], "pads": [0, 0, 0, 1]}),
    ],
)
def test_kernels_read_and_write_their_buffers_only(compiled, kernels, run, amx, shape, weights, attrs):
    """As interpreted, which raises where an index is outside."""
    compiled(convolution(shape, weights, attrs)[0], without=["winograd"])
    (kernel,) = kernels
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, b.shape).astype(b.dtype.numpy) for b in kernel.params]
    wanted = [a.copy() for a in arrays]
    interpret(kernel, wanted)
    run(kernel, amx, *arrays)
    for found, by_loops in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(found.astype(np.float32), by_loops.astype(np.float32))
