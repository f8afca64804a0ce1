"""8-, 4- and 2-bit types: packed in files, a byte an element inside, conversions through f32 and i32."""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.dtypes import DTYPES
from tilewright.errors import ImportModelError
from tilewright.frontend.tensors import element_type, tensor_array

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]

CODES = [
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
    TensorProto.FLOAT8E8M0,
    TensorProto.FLOAT4E2M1,
    TensorProto.INT4,
    TensorProto.UINT4,
    TensorProto.INT2,
    TensorProto.UINT2,
]


def all_codes(code: int) -> np.ndarray:
    """Every value of a type, and one more, so that the last byte of a packed tensor is not full."""
    dtype = element_type(code)
    assert dtype is not None
    numbers = np.arange((1 << dtype.file_bits) + 1) % (1 << dtype.file_bits)
    return numbers.astype(np.uint8).view(dtype.numpy)


def test_every_code_has_an_onnx_type() -> None:
    found = {element_type(code) for code in CODES}
    assert found == {dtype for dtype in DTYPES.values() if dtype.is_code}


@pytest.mark.parametrize("code", CODES)
def test_tensors_are_unpacked(code: int, tmp_path: Path) -> None:
    wanted = all_codes(code)
    raw = numpy_helper.from_array(wanted, "t")
    np.testing.assert_array_equal(tensor_array(raw, None, "t").view(np.uint8), wanted.view(np.uint8))
    values = onnx.TensorProto(data_type=code, dims=wanted.shape, int32_data=list(raw.raw_data))
    np.testing.assert_array_equal(tensor_array(values, None, "t").view(np.uint8), wanted.view(np.uint8))
    (tmp_path / "data.bin").write_bytes(b"\x55" + raw.raw_data)
    outside = onnx.TensorProto(name="t", data_type=code, dims=wanted.shape)
    outside.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "data.bin", "offset": 1, "length": len(raw.raw_data)}.items():
        outside.external_data.add(key=key, value=str(value))
    np.testing.assert_array_equal(tensor_array(outside, tmp_path, "t").view(np.uint8), wanted.view(np.uint8))


def test_wrong_number_of_packed_bytes_is_refused() -> None:
    tensor = onnx.TensorProto(name="t", data_type=TensorProto.INT4, dims=[3], raw_data=b"\x21\x03\x00")
    with pytest.raises(ImportModelError, match="needs 2 bytes, the file holds 3"):
        tensor_array(tensor, None, "t")


@pytest.mark.parametrize("code", CODES)
def test_conversion_there_and_back_and_movement(build: Build, run: Run, code: int) -> None:
    x = all_codes(code)
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["wide"], ["back"], to=code, saturate=0),
        helper.make_node("Concat", ["back", "x"], ["y"], axis=0),
    ]
    found = run(build(nodes, {"x": x}, ["y"], opset=24, output_kind=code), {"x": x})["y"]
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found.astype(np.float32), np.concatenate([x, x]).astype(np.float32))


def test_saturation(build: Build, run: Run) -> None:
    x = np.array([1000, -1000, np.inf, np.nan, 464.5], np.float32)
    results = {}
    for saturate in (0, 1):
        node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN, saturate=saturate)
        kind = TensorProto.FLOAT8E4M3FN
        y = run(build([node], {"x": x}, ["y"], opset=19, output_kind=kind), {"x": x})["y"]
        results[saturate] = y.astype(np.float32)
    np.testing.assert_array_equal(results[1], [448, -448, 448, np.nan, 448])
    np.testing.assert_array_equal(results[0], [np.nan] * 5)


def test_cast_like_takes_a_code(build: Build, run: Run) -> None:
    x, like = np.array([3.0, -9.0, 7.9], np.float32), np.zeros(1, ml_dtypes.int4)
    node = helper.make_node("CastLike", ["x", "like"], ["y"])
    inputs = {"x": x, "like": like}
    found = run(build([node], inputs, ["y"], opset=21, output_kind=TensorProto.INT4), inputs)["y"]
    assert found.astype(int).tolist() == [3, 7, 7]
