"""ImageDecoder, compiled: pictures of all kinds, damaged files, and models that declare the size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from compiled_case import check_compiled
from image_cases import Encoded, encoded, picture, pictures
from onnx import TensorProto, helper

import tilewright as tw
from tilewright import faults
from tilewright.errors import ImportModelError, RunError
from tilewright.ops.image_bytes import PIXEL_FORMATS
from tilewright.ops.operator import REGISTRY


def model(length: int, shape: list[int | str], pixel_format: str = "RGB") -> bytes:
    """A model that decodes `length` bytes into a picture of a declared shape and inverts it."""
    data = helper.make_tensor_value_info("data", TensorProto.UINT8, [length])
    result = helper.make_tensor_value_info("inverse", TensorProto.UINT8, None)
    declared = helper.make_tensor_value_info("picture", TensorProto.UINT8, shape)
    nodes = [
        helper.make_node("ImageDecoder", ["data"], ["picture"], pixel_format=pixel_format),
        helper.make_node("BitwiseNot", ["picture"], ["inverse"]),
    ]
    graph = helper.make_graph(nodes, "decode", [data], [result], value_info=[declared])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()


@pytest.mark.parametrize("file", [f for f in pictures() if len(f.colours) == 7], ids=lambda file: file.name)
def test_pixels_are_those_of_numpy(file: Encoded, tmp_path: Path) -> None:
    number = len(file.data) % len(PIXEL_FORMATS)
    check_compiled(file.case(PIXEL_FORMATS[number]), tmp_path)


def outcome(run: Callable[[], np.ndarray]) -> np.ndarray | None:
    """What a run gives, None when it says that the picture cannot be decoded."""
    try:
        return run()
    except RunError:
        return None


@pytest.mark.parametrize("kind", ["BMP", "PPM", "TIFF", "PNG"])
def test_damaged_files_give_the_pixels_of_numpy_or_an_error(kind: str, tmp_path: Path) -> None:
    """Every byte of the headers, and many behind them, changed in turn."""
    file = encoded(picture("P" if kind in ("BMP", "PNG") else "RGB", 9, 7), kind)
    data = np.frombuffer(file.data, np.uint8).copy()
    attrs = {"height": 9, "width": 7}
    exe = tw.compile(model(len(data), [9, 7, 3]), cache_dir=tmp_path, threads=1)
    rng = np.random.default_rng(3)
    refused = 0
    for place in [*range(min(len(data), 150)), *rng.integers(0, len(data), 100)]:
        sound, data[place] = data[place], rng.integers(0, 256)
        wanted = outcome(lambda: REGISTRY["ImageDecoder"].evaluate([data], attrs)[0])
        found = outcome(lambda: exe(data))
        assert (found is None) == (wanted is None), place
        if found is None or wanted is None:
            refused += 1
        else:
            np.testing.assert_array_equal(found, ~wanted, str(place))
        data[place] = sound
    assert 10 < refused < 245


def test_a_run_after_a_failed_one_is_whole(tmp_path: Path) -> None:
    file = encoded(picture("RGB", 40, 50), "PNG")
    data = np.frombuffer(file.data, np.uint8)
    exe = tw.compile(model(len(data), [40, 50, 1], "Grayscale"), cache_dir=tmp_path, threads=2)
    for _ in range(2):
        with pytest.raises(RunError, match="is no picture that can be decoded here"):
            exe(np.zeros_like(data))
        np.testing.assert_array_equal(exe(data), ~file.pixels("Grayscale"))


@pytest.mark.parametrize("target", ["cpu", "numpy"])
def test_another_size_than_the_declared_one_is_an_error(target: str, tmp_path: Path) -> None:
    file = encoded(picture("RGB", 4, 5), "BMP")
    data = np.frombuffer(file.data, np.uint8)
    exe = tw.compile(model(len(data), [5, 4, 3]), target=target, cache_dir=tmp_path, threads=1)
    with pytest.raises(RunError, match=faults.REASONS[faults.PICTURE_SIZE]):
        exe(data)


def test_named_sizes_are_given_by_dim(tmp_path: Path) -> None:
    file = encoded(picture("RGB", 4, 5), "TIFF")
    data = np.frombuffer(file.data, np.uint8)
    source = model(len(data), ["H", "W", 3])
    with pytest.raises(ImportModelError, match=r"node 'picture' .*size of the picture must be known"):
        tw.compile(source, cache_dir=tmp_path)
    exe = tw.compile(source, dims={"H": 4, "W": 5}, cache_dir=tmp_path, threads=1)
    np.testing.assert_array_equal(exe(data), ~file.colours)


def test_an_unknown_pixel_format_is_refused() -> None:
    with pytest.raises(ImportModelError, match="attribute 'pixel_format' must be one of RGB, BGR, Grayscale"):
        tw.compile(model(9, [4, 5, 3], "YUV"))
