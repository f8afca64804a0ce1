"""The state-dict reader: right tensors, and nothing but tensors."""

import pickle
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from tilewright.errors import DataError
from tilewright_datasets.torch_file import read_state_dict

HEADER = b"".join(
    pickle.dumps(value, protocol=2)
    for value in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True})
)
VALUES = np.arange(12, dtype=np.float32)


def state_dict(
    module: str = "torch", storage: str = "FloatStorage", shape: str = "(K\x03K\x04t", count: int = 12
) -> bytes:
    """Pickle text of {'w': tensor of storage '7', offset 0, the shape, strides (1, 3)} by hand."""
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    key = (
        b"(X\x07\x00\x00\x00storagec"
        + f"{module}\n{storage}\n".encode()
        + b"X\x01\x00\x00\x007X\x03\x00\x00\x00cpu"
    )
    key += b"K" + bytes([count]) + b"NtQ"
    tensor = (
        rebuild
        + b"("
        + key
        + b"K\x00"
        + shape.encode("latin-1")
        + b"(K\x01K\x03t\x89ccollections\nOrderedDict\n)RtR"
    )
    return b"\x80\x02}X\x01\x00\x00\x00w" + tensor + b"s."


def file_of(body: bytes, elements: np.ndarray[Any, Any] = VALUES) -> bytes:
    return (
        HEADER
        + body
        + pickle.dumps(["7"], protocol=2)
        + struct.pack("<q", elements.size)
        + elements.tobytes()
    )


def test_strided_tensor() -> None:
    state = read_state_dict(file_of(state_dict()), "file")
    np.testing.assert_array_equal(state["w"], VALUES.reshape(4, 3).T)
    assert state["w"].dtype == np.float32


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("builtins", "eval"), ("torch", "HalfStorage")]
)
def test_foreign_global_is_refused(module: str, name: str) -> None:
    with pytest.raises(DataError, match=rf"'{module}\.{name}'.*refused"):
        read_state_dict(file_of(state_dict(module, name)), "file")


def test_code_is_not_run(tmp_path: Any) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
            return (open, (str(tmp_path / "written"), "w"))

    body = pickle.dumps(OrderedDict(w=Attack()), protocol=2)
    with pytest.raises(DataError, match="refused"):
        read_state_dict(file_of(body), "file")
    assert not (tmp_path / "written").exists()


def test_truncated_storage() -> None:
    with pytest.raises(DataError, match="storage 7 is truncated"):
        read_state_dict(file_of(state_dict())[:-4], "weights.pth")


def test_tensor_past_its_storage() -> None:
    with pytest.raises(DataError, match="reaches past its storage"):
        read_state_dict(file_of(state_dict(shape="(K\x04K\x04t")), "weights.pth")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02K\x01.", HEADER])
def test_other_formats(content: bytes) -> None:
    with pytest.raises(DataError, match=r"weights\.pth"):
        read_state_dict(content, "weights.pth")
