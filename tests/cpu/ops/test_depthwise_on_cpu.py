"""Depthwise convolutions in tiles of pixels: borders, tails, strides, and what has another template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.ops.all
from tilewright.dtypes import F32
from tilewright.graph.ir import Function, Module, Value
from tilewright.ops.operator import Builder
from tilewright.types import TensorType

ENDS = 8  # channels of the network's input and output


def block(shape: tuple[int, ...], window: tuple[int, int], group: int, **attrs: Any) -> Module:
    """A convolution of groups on `shape`, with y * sigmoid(y) behind it, between two 1x1 convolutions."""
    rng = np.random.default_rng(5)
    function = Function("main")
    builder = Builder(function)
    batch, channels, high, wide = shape

    def conv(x: Value, *weights: int, **attrs: Any) -> Value:
        values = (rng.standard_normal(weights) / np.sqrt(np.prod(weights[1:]))).astype(np.float32)
        bias = builder.constant(rng.standard_normal(weights[0]).astype(np.float32))
        return builder.op("Conv", x, builder.constant(values), bias, **attrs)

    x = function.add_input("x", TensorType(F32, (batch, ENDS, high, wide)))
    y = conv(conv(x, channels, ENDS, 1, 1), channels, channels // group, *window, group=group, **attrs)
    y = builder.op("Mul", y, builder.op("Sigmoid", y))
    function.outputs = [conv(y, ENDS, channels, 1, 1)]
    function.output_names = ["y"]
    return Module({"main": function})


def templates(module: Module, tmp_path: Path, threads: int = 1) -> set[str]:
    """The templates of its kernels; its numbers are compared with the reference."""
    engine = tw.compile(module, threads=threads, cache_dir=tmp_path, verify_each=True)
    (source,) = engine.inputs
    x = np.random.default_rng(6).standard_normal(source.shape).astype(np.float32)
    np.testing.assert_allclose(engine.run({"x": x})["y"], tw.evaluate(module, {"x": x})["y"], 1e-5, 1e-5)
    (segment,) = engine.package.segments
    return {row["template"] for row in segment.info["kernels"]}


PAD = {"pads": (1, 1, 1, 1)}
TILED = {
    "odd": ((1, 24, 9, 7), (3, 3), PAD),
    "strides": ((2, 40, 11, 6), (3, 3), PAD | {"strides": (2, 2)}),
    "one stride": ((1, 32, 9, 8), (3, 3), PAD | {"strides": (1, 2)}),
    "large window": ((1, 16, 8, 8), (5, 5), {"pads": (2, 2, 2, 2)}),
    "dilation": ((1, 20, 9, 10), (3, 3), {"pads": (2, 2, 2, 2), "dilations": (2, 2)}),
    "no padding": ((1, 5, 6, 6), (3, 1), {}),
    "runs of channels": ((2, 600, 5, 6), (3, 3), PAD),
    "a prime number of vectors": ((1, 592, 5, 6), (3, 3), PAD),
    "many bands": ((1, 96, 33, 5), (3, 3), PAD),
    "small plane": ((1, 64, 3, 3), (2, 2), {}),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", TILED)
def test_tiles_of_pixels(name: str, threads: int, tmp_path: Path) -> None:
    shape, window, attrs = TILED[name]
    assert "depthwise" in templates(block(shape, window, shape[1], **attrs), tmp_path, threads)


OTHERS = {
    "window too large to write out": ((1, 24, 9, 9), (7, 7), 24),
    "one column": ((1, 24, 9, 3), (3, 3), 24),
    "groups of several channels": ((1, 24, 9, 9), (3, 3), 12),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_templates(name: str, tmp_path: Path) -> None:
    shape, window, group = OTHERS[name]
    assert "depthwise" not in templates(block(shape, window, group), tmp_path)


def test_runs_of_channels_are_alike(tmp_path: Path) -> None:
    """42 vectors of 16 channels in runs of five left a short one, where lanes were taken one by one."""
    shape = (1, 672, 14, 14)
    module = block(shape, (5, 5), shape[1], pads=(1, 1, 2, 2), strides=(2, 2))
    tw.compile(module, threads=1, cache_dir=tmp_path / "cache", dump_dir=tmp_path / "dump")
    texts = [file.read_text() for file in (tmp_path / "dump" / "kernels").glob("conv_*")]
    (depthwise,) = [text for text in texts if "@in x0: f32[1,17,17,672]" in text]
    assert "parallel for" in depthwise
    assert "if " not in depthwise
