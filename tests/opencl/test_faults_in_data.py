"""What kernels on the embedded device find wrong with the data makes the run fail; the next run is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

import tilewright as tw
from tilewright.errors import RunError

pytestmark = pytest.mark.usefixtures("target")


def model(op: str, inputs: dict[str, tuple[int, list[int]]], shape: list[int], **attributes: object) -> bytes:
    """A model of one node; inputs: element type and shape by name."""
    given = [helper.make_tensor_value_info(name, code, extents) for name, (code, extents) in inputs.items()]
    code = TensorProto.UINT8 if op == "ImageDecoder" else TensorProto.FLOAT
    result = helper.make_tensor_value_info("y", code, shape)
    graph = helper.make_graph([helper.make_node(op, list(inputs), ["y"], **attributes)], op, given, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()


def test_an_index_outside_its_axis_is_an_error(tmp_path: Path) -> None:
    operands = {"x": (TensorProto.FLOAT, [5, 64]), "at": (TensorProto.INT64, [3, 64])}
    exe = tw.compile(model("GatherElements", operands, [3, 64]), target="opencl", cache_dir=tmp_path)
    x, at = np.arange(320, dtype=np.float32).reshape(5, 64), np.ones((3, 64), np.int64)
    for _ in range(2):
        np.testing.assert_array_equal(exe(x, at), x[at, np.arange(64)])
        for wrong in (5, -6):
            outside = at.copy()
            outside[2, 63] = wrong
            with pytest.raises(RunError, match=r"^kernel '.*': an index in the data lies outside the axis"):
                exe(x, outside)


def test_a_picture_of_another_kind_is_an_error(tmp_path: Path) -> None:
    colours = np.random.default_rng(1).integers(0, 256, (5, 7, 3), np.uint8)
    Image.fromarray(colours).save(tmp_path / "a.bmp")
    data = np.fromfile(tmp_path / "a.bmp", np.uint8)
    source = model("ImageDecoder", {"data": (TensorProto.UINT8, [len(data)])}, [5, 7, 3], pixel_format="BGR")
    exe = tw.compile(source, target="opencl", cache_dir=tmp_path / "cache")
    jpeg = data.copy()
    jpeg[:2] = 0xFF, 0xD8
    with pytest.raises(
        RunError, match=r"^kernel 'image_decoder.*': the data is no picture that can be decoded"
    ):
        exe(jpeg)
    np.testing.assert_array_equal(exe(data), colours[..., ::-1])
