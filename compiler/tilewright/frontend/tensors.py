"""ONNX tensors as NumPy arrays, including data that lives in files beside the model."""

from __future__ import annotations

from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tilewright.dtypes import DTYPES, U8, DType
from tilewright.errors import ImportModelError

_NAMES: dict[int, str] = {
    TensorProto.FLOAT: "f32",
    TensorProto.UINT8: "u8",
    TensorProto.INT8: "i8",
    TensorProto.UINT16: "u16",
    TensorProto.INT16: "i16",
    TensorProto.INT32: "i32",
    TensorProto.INT64: "i64",
    TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "f16",
    TensorProto.DOUBLE: "f64",
    TensorProto.UINT32: "u32",
    TensorProto.UINT64: "u64",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.FLOAT8E4M3FN: "f8e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "f8e4m3fnuz",
    TensorProto.FLOAT8E5M2: "f8e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "f8e5m2fnuz",
    TensorProto.FLOAT8E8M0: "f8e8m0",
    TensorProto.FLOAT4E2M1: "f4e2m1",
    TensorProto.INT4: "i4",
    TensorProto.UINT4: "u4",
    TensorProto.INT2: "i2",
    TensorProto.UINT2: "u2",
}

# Where values sit that are not raw bytes; half floats are stored as the integer of their bits.
_FIELDS = {
    "f32": "float_data",
    "f64": "double_data",
    "i64": "int64_data",
    "u32": "uint64_data",
    "u64": "uint64_data",
}
_BITS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def element_type(code: int) -> DType | None:
    """Our element type for an ONNX type code; None when there is none."""
    name = _NAMES.get(code)
    return None if name is None else DTYPES[name]


def type_name(code: int) -> str:
    """ONNX's own name for a type code, for messages."""
    known = TensorProto.DataType.values()
    return TensorProto.DataType.Name(code) if code in known else f"number {code}"


def tensor_array(tensor: TensorProto, base_dir: Path | None, where: str) -> np.ndarray:
    """The array of an ONNX tensor. `where` names it in messages; `base_dir` is the folder of external data.

    Sizes are checked before anything is allocated. Raises ImportModelError.
    """
    dtype = element_type(tensor.data_type)
    if dtype is None:
        raise ImportModelError(
            f"{where} has element type {type_name(tensor.data_type)}, which is not supported"
        )
    if tensor.HasField("segment"):
        raise ImportModelError(f"{where} is stored in segments, which is not supported")
    shape = tuple(tensor.dims)
    if any(extent < 0 for extent in shape):
        raise ImportModelError(f"{where} has a negative extent: {list(shape)}")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, dtype, shape, base_dir, where)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        _expect(len(raw), _file_bytes(dtype, shape), "bytes", where, shape)
        return _from_bytes(np.frombuffer(raw, np.uint8), dtype, shape)
    values = getattr(tensor, _FIELDS.get(dtype.name, "int32_data"))
    _expect(len(values), _file_bytes(dtype, shape) // dtype.bytes, "values", where, shape)
    if dtype.is_code:
        return _from_bytes(_from_values(values, U8, where), dtype, shape)
    return _from_values(values, dtype, where).reshape(shape)


def _file_bytes(dtype: DType, shape: tuple[int, ...]) -> int:
    return -(-prod(shape) * dtype.file_bits // 8)


def _from_bytes(data: np.ndarray, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of the bytes of a file; narrow ones are packed, the first in the lowest bits."""
    bits = dtype.file_bits
    if bits >= 8:
        return data.view(dtype.numpy).reshape(shape)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    unpacked = (data[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    return unpacked.reshape(-1)[: prod(shape)].view(dtype.numpy).reshape(shape)


def _from_values(values: object, dtype: DType, where: str) -> np.ndarray:
    if dtype.name in ("f32", "f64"):
        return np.array(values, dtype.numpy)
    wide = np.array(values, np.uint64 if dtype.kind == "uint" and dtype.bits > 16 else np.int64)
    stored = np.dtype(np.uint16) if dtype.name in _BITS else dtype.numpy
    narrow = wide.astype(stored)
    if not np.array_equal(narrow.astype(wide.dtype), wide):
        raise ImportModelError(f"{where} holds values that do not fit its element type {dtype}")
    return narrow.view(_BITS[dtype.name]) if dtype.name in _BITS else narrow


def _external(
    tensor: TensorProto, dtype: DType, shape: tuple[int, ...], base_dir: Path | None, where: str
) -> np.ndarray:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    path = _contained(location, base_dir, where)
    size = _file_bytes(dtype, shape)
    offset = _number(entries.get("offset", "0"), "offset", where)
    _expect(_number(entries.get("length", str(size)), "length", where), size, "bytes", where, shape)
    try:
        available = path.stat().st_size
        if not path.is_file() or offset + size > available:
            raise ImportModelError(
                f"{where} needs bytes {offset} to {offset + size} of '{location}', which has {available}: "
                "the external data file is truncated or belongs to another model"
            )
        return _from_bytes(np.fromfile(path, np.uint8, size, offset=offset), dtype, shape)
    except OSError as error:
        raise ImportModelError(f"{where}: external data '{path}' cannot be read: {error.strerror}") from error


def _contained(location: str, base_dir: Path | None, where: str) -> Path:
    if base_dir is None:
        raise ImportModelError(
            f"{where} is stored in the external file '{location}', but the model was given as bytes: "
            "pass base_dir, the folder of that file"
        )
    if not location or "\0" in location:
        raise ImportModelError(f"{where} is external but names no usable file")
    folder = base_dir.resolve()
    try:
        path = (folder / location).resolve()
    except (OSError, RuntimeError) as error:
        raise ImportModelError(f"{where}: external data '{location}' is a loop of links") from error
    if not path.is_relative_to(folder) or path == folder:
        raise ImportModelError(
            f"{where}: external data '{location}' lies outside the model's folder {folder}"
        )
    return path


def _number(text: str, what: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ImportModelError(f"{where}: external data {what} '{text}' is not a non-negative number")
    return int(text)


def _expect(found: int, wanted: int, unit: str, where: str, shape: tuple[int, ...]) -> None:
    if found != wanted:
        raise ImportModelError(
            f"{where} of shape {list(shape)} needs {wanted} {unit}, the file holds {found}"
        )
