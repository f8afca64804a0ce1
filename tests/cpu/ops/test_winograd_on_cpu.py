"""Winograd's algorithm in generated code: tiles by precision mode, edges, epilogues, threads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import relative_error
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.config import PRECISIONS
from tilewright.passes.storage import _Choice
from tilewright.targets.cpu.detect import from_features

LIMITS = {"fp32": 2e-6, "fp32-fast": PRECISIONS["fp32-fast"]}
SIDES = {"fp32": 2, "fp32-fast": 4}


def convolutions(size: tuple[int, int], pads: tuple[int, ...], channels: int = 20) -> bytes:
    """Two 3x3 convolutions, the second with a residual and Relu."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 8, name)
        for name, shape in (
            ("w1", (channels, channels, 3, 3)),
            ("w2", (channels, channels, 3, 3)),
            ("b", (channels,)),
        )
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=pads),
        helper.make_node("Conv", ["a", "w2", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "a"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, *size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def sides(exe: tw.Executable) -> set[int]:
    """Of the tiles of all kernels of the template."""
    kernels = [kernel for segment in exe.package.segments for kernel in segment.info["kernels"]]
    knobs = [kernel["knobs"] for kernel in kernels if kernel["template"] == "winograd"]
    return {int(found[1]) for text in knobs if (found := re.search(r"side=(\d+)", text))}


@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize(
    ("size", "pads"),
    [((16, 16), (1, 1, 1, 1)), ((9, 14), (1, 1, 1, 1)), ((13, 11), (0, 1, 2, 0)), ((30, 7), (2, 2, 2, 2))],
)
def test_tiles_and_error_by_mode(size: Any, pads: Any, precision: str, tmp_path: Path) -> None:
    model = convolutions(size, pads)
    x = np.random.default_rng(1).standard_normal((1, 20, *size)).astype(np.float32)
    exe = tw.compile(model, precision=precision, threads=1, cache_dir=tmp_path)
    assert sides(exe) == {SIDES[precision]}
    found, expected = exe.run({"x": x})["y"], tw.evaluate(model, {"x": x})["y"]
    assert relative_error(found, expected) <= LIMITS[precision]
    shared = tw.compile(model, precision=precision, threads=2, cache_dir=tmp_path)
    np.testing.assert_array_equal(shared.run({"x": x})["y"], found)


def test_narrow_vectors_and_few_registers(tmp_path: Path) -> None:
    machine = tmp_path / "sse2.json"
    machine.write_text(json.dumps(from_features("narrow", frozenset({"sse", "sse2"})).to_json()))
    model = convolutions((13, 18), (1, 1, 1, 1))
    x = np.random.default_rng(1).standard_normal((1, 20, 13, 18)).astype(np.float32)
    exe = tw.compile(model, precision="fp32-fast", machine=machine, threads=1, cache_dir=tmp_path)
    assert sides(exe) == {4}
    assert relative_error(exe.run({"x": x})["y"], tw.evaluate(model, {"x": x})["y"]) <= 2e-6


@pytest.mark.parametrize("precision", LIMITS)
def test_padding_without_a_halo(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that hang over the edge of an input that has no zeros around it."""
    monkeypatch.setattr(_Choice, "_add_halos", lambda *arguments: None)
    model = convolutions((9, 14), (1, 0, 2, 1))
    x = np.random.default_rng(1).standard_normal((1, 20, 9, 14)).astype(np.float32)
    exe = tw.compile(model, precision=precision, threads=1, cache_dir=tmp_path)
    assert sides(exe) == {SIDES[precision]}
    assert relative_error(exe.run({"x": x})["y"], tw.evaluate(model, {"x": x})["y"]) <= LIMITS[precision]


def test_without_winograd_every_mode_is_direct(tmp_path: Path) -> None:
    model = convolutions((16, 16), (1, 1, 1, 1))
    exe = tw.compile(model, precision="fp32-fast", without=("winograd",), threads=1, cache_dir=tmp_path)
    assert not sides(exe)
