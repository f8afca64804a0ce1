"""State dicts out of PyTorch's stream format (`torch.save` before 1.6), without PyTorch.

The format is a row of pickles (magic number, protocol version, system facts, the object, the storage keys),
followed by every storage as an int64 element count and its raw little-endian elements, in the order of the
keys. A pickle can name any function of the process, so the unpickler knows an allow-list and refuses every
other name.
"""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from tilewright.errors import DataError

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


@dataclass(frozen=True)
class _StorageKind:
    dtype: str


@dataclass
class _Storage:
    """One flat buffer; its elements arrive after the pickle that refers to it."""

    dtype: np.dtype[Any]
    count: int
    elements: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True)
class _TensorView:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild_tensor(storage: _Storage, offset: int, shape: Any, strides: Any, *_ignored: Any) -> _TensorView:
    return _TensorView(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch", "FloatStorage"): _StorageKind("<f4"),
    ("torch", "LongStorage"): _StorageKind("<i8"),
}


class _RestrictedUnpickler(pickle.Unpickler):
    """Resolves the names of the allow-list only, and storages by their key."""

    def __init__(self, stream: BinaryIO, storages: dict[str, _Storage]) -> None:
        super().__init__(stream)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise DataError(f"weights file asks for '{module}.{name}', which no state dict needs: refused")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        match pid:
            case ("storage", _StorageKind(dtype), str(key), str(), int(count), None):
                return self._storages.setdefault(key, _Storage(np.dtype(dtype), count))
        raise DataError(f"weights file holds a storage reference of an unknown form: {pid!r}")


def read_state_dict(content: bytes, source: str) -> dict[str, np.ndarray[Any, Any]]:
    """Tensors by name (float32 or int64, each a contiguous copy) of the state dict in `content`.

    `source` names the file in errors. Raises DataError when the content is of another format, truncated, or
    names anything but tensors.
    """
    stream = io.BytesIO(content)
    storages: dict[str, _Storage] = {}

    def load() -> Any:
        return _RestrictedUnpickler(stream, storages).load()

    try:
        _check_header(load, source)
        views = load()
        _fill_storages(stream, load(), storages, source)
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
        KeyError,
    ) as error:
        raise DataError(f"{source}: not a readable PyTorch state dict ({error}); fetch it again") from error
    if not isinstance(views, dict):
        raise DataError(f"{source}: holds a {type(views).__name__} where a state dict was expected")
    return {str(name): _materialise(str(name), view, source) for name, view in views.items()}


def _check_header(load: Callable[[], Any], source: str) -> None:
    if load() != _MAGIC or load() != _PROTOCOL:
        raise DataError(f"{source}: not in PyTorch's stream format (magic number or version differ)")
    facts = load()
    if not isinstance(facts, dict) or facts.get("little_endian") is not True:
        raise DataError(f"{source}: only little-endian weights files are read")


def _fill_storages(stream: io.BytesIO, keys: Any, storages: dict[str, _Storage], source: str) -> None:
    for key in keys:
        storage = storages[key]
        count = int.from_bytes(stream.read(8), "little", signed=True)
        raw = stream.read(storage.count * storage.dtype.itemsize)
        if count != storage.count or len(raw) != storage.count * storage.dtype.itemsize:
            raise DataError(f"{source}: storage {key} is truncated; fetch the file again")
        storage.elements = np.frombuffer(raw, storage.dtype)


def _materialise(name: str, view: Any, source: str) -> np.ndarray[Any, Any]:
    if not isinstance(view, _TensorView) or view.storage.elements is None:
        raise DataError(f"{source}: entry '{name}' is not a tensor with data")
    if len(view.shape) != len(view.strides) or min((view.offset, *view.shape, *view.strides)) < 0:
        raise DataError(f"{source}: tensor '{name}' has a malformed shape")
    reach = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    if 0 not in view.shape and view.offset + reach >= view.storage.count:
        raise DataError(f"{source}: tensor '{name}' reaches past its storage")
    elements = view.storage.elements
    steps = tuple(stride * elements.itemsize for stride in view.strides)
    strided = np.lib.stride_tricks.as_strided(elements[view.offset :], view.shape, steps, writeable=False)
    return np.array(strided, order="C")
