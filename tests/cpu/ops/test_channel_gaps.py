"""Layers whose pixels have a gap after their channels, because they would share sets of the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.ops.all
from tilewright.dtypes import F32
from tilewright.graph.ir import Function, Module, Value
from tilewright.ops.operator import Builder
from tilewright.types import TensorType

CHANNELS = 1024
WINDOW = {"strides": (1, 1), "dilations": (1, 1)}


def network(batch: int) -> Module:
    """A block whose values of 1024 channels are read by convolutions, an addition, a mean and a join."""
    rng = np.random.default_rng(3)
    function = Function("main")
    builder = Builder(function)

    def conv(x: Value, columns: int, kernel: int = 1, group: int = 1) -> Value:
        depth = x.shape[1] // group
        weights = rng.standard_normal((columns, depth, kernel, kernel)) / np.sqrt(depth * kernel * kernel)
        pads = (kernel // 2,) * 4
        constant = builder.constant(weights.astype(np.float32))
        return builder.op("Conv", x, constant, None, **WINDOW, pads=pads, group=group)

    x = function.add_input("x", TensorType(F32, (batch, 40, 5, 3)))
    wide = builder.op("Relu", conv(x, CHANNELS))
    deep = builder.op("Relu", conv(wide, CHANNELS, kernel=3, group=CHANNELS))
    narrow = conv(deep, 24)
    sum_ = builder.op("Add", conv(narrow, CHANNELS), wide)
    joined = builder.op("Concat", narrow, conv(sum_, 8), axis=1)
    mean = builder.op("ReduceMean", sum_, axes=(2, 3), keepdims=True)
    function.outputs = [joined, mean]
    function.output_names = ["joined", "mean"]
    return Module({"main": function})


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (2, 2)])
def test_numbers_are_the_same(batch: int, threads: int, tmp_path: Path) -> None:
    module = network(batch)
    x = np.random.default_rng(4).standard_normal((batch, 40, 5, 3)).astype(np.float32)
    engine = tw.compile(module, threads=threads, cache_dir=tmp_path, verify_each=True)
    (segment,) = engine.package.segments
    assert {"acdb+0.0.0.32.0.0.0.0", "acdb+0.0.0.32.1.1.1.1"} <= segment.info["storages"].keys()
    found = engine.run({"x": x})
    for name, wanted in tw.evaluate(module, {"x": x}).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)
