"""Device buffers live as long as their executable, also when runs fail."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.errors import RunError


@pytest.fixture
def live(target: object, monkeypatch: pytest.MonkeyPatch) -> weakref.WeakSet[Any]:
    """The buffers that exist."""
    cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    found: weakref.WeakSet[Any] = weakref.WeakSet()

    class Counted(cl.Buffer):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            found.add(self)

    monkeypatch.setattr(cl, "Buffer", Counted)
    return found


def model(width: int) -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, width])
    at = helper.make_tensor_value_info("at", TensorProto.INT64, [4, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 1])
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("GatherElements", ["p", "at"], ["y"], axis=1),
    ]
    graph = helper.make_graph(nodes, "g", [x, at], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()


def test_no_buffer_outlives_its_executable(live: weakref.WeakSet[Any], tmp_path: Path) -> None:
    counts = []
    for width in (3, 4, 5):
        exe = tw.compile(model(width), target="opencl", cache_dir=tmp_path)
        x, at = np.zeros((4, width), np.float32), np.zeros((4, 1), np.int64)
        loaded = len(live)
        for _ in range(3):
            np.testing.assert_allclose(exe(x, at), 1 / width, rtol=1e-6)
            with pytest.raises(RunError):
                exe(x, at + width)
        counts.append(loaded)
        assert len(live) == loaded  # runs make none
        del exe
        gc.collect()
        assert not live
    assert len(set(counts)) == 1
    assert counts[0] > 0
