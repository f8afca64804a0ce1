"""The artefact file: a package on disk.

    offset 0    magic, format version (u32), header length (u32), sha256 of the header     48 bytes
    offset 48   header: JSON
    then        sections, each at a multiple of 4096 bytes: code and constants of every segment

The header lists offset, length and sha256 of every section. Constants are mapped, not read. There is no
pickle; but code is native code: trust an artefact as you would trust a shared library.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tilewright.dtypes import DTYPES
from tilewright.errors import ArtefactError
from tilewright.runtime.package import Package
from tilewright.segment import Port, Segment

MAGIC = b"TILEWRT\x00"
FORMAT_VERSION = 2
PAGE = 4096
_PREFIX = struct.Struct("<8sII32s")


def write_artefact(package: Package, path: Path) -> None:
    """Writes a temporary file beside `path`, then renames it.

    Raises ArtefactError when that is not possible.
    """
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                _write(package, file)
            os.chmod(draft, 0o644)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise ArtefactError(f"{path} cannot be written: {error.strerror or error}") from error


def read_artefact(path: Path) -> Package:
    """The package in a file.

    Raises ArtefactError when it is missing, truncated, damaged, or of another version.
    """
    try:
        file = np.memmap(path, np.uint8, "r") if path.stat().st_size else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ArtefactError(f"{path} cannot be read: {reason}") from error
    if file is None or file.size < _PREFIX.size:
        raise ArtefactError(f"{path} is not a Tilewright artefact: it is too short")
    mapped = file.view(np.ndarray)
    header = _read_header(mapped, path)
    try:
        segments = tuple(_read_segment(mapped, entry, path) for entry in header["segments"])
        return Package(
            header["model"],
            header["target"],
            segments,
            tuple(header["inputs"]),
            tuple(header["outputs"]),
            header["versions"],
            header["info"],
        )
    except (KeyError, TypeError) as error:
        raise ArtefactError(
            f"{path}: the header is malformed ({error!r}); compile the model again"
        ) from error


def is_artefact(path: Path) -> bool:
    """Whether a file starts like an artefact."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _write(package: Package, file: BinaryIO) -> None:
    blocks = [block for segment in package.segments for block in _blocks(segment)]
    entries = [{"length": len(block), "sha256": sha256(block).hexdigest()} for block in blocks]
    start, header = _layout(package, entries)
    file.write(_PREFIX.pack(MAGIC, FORMAT_VERSION, len(header), sha256(header).digest()))
    file.write(header)
    for block in blocks:
        file.write(bytes(start - file.tell()))
        file.write(block)
        start = _page(file.tell())
    file.truncate(start)


def _blocks(segment: Segment) -> tuple[bytes | memoryview, memoryview]:
    constants = np.ascontiguousarray(segment.constants).reshape(-1).view(np.uint8)
    return segment.code, constants.data


def _layout(package: Package, entries: list[dict[str, Any]]) -> tuple[int, bytes]:
    """Offset of the first section, and the header.

    The header's length depends on the offsets in it: found by trying.
    """
    start = PAGE
    while True:
        offset = start
        for entry in entries:
            entry["offset"] = offset
            offset = _page(offset + entry["length"])
        header = json.dumps(_header(package, entries, offset), separators=(",", ":")).encode()
        needed = _page(_PREFIX.size + len(header))
        if needed <= start:
            return start, header
        start = needed


def _page(offset: int) -> int:
    return -(-offset // PAGE) * PAGE


def _header(package: Package, entries: list[dict[str, Any]], size: int) -> dict[str, Any]:
    segments = [
        {
            "target": segment.target,
            "code": entries[2 * index],
            "constants": entries[2 * index + 1],
            "inputs": [asdict(port) for port in segment.inputs],
            "outputs": [asdict(port) for port in segment.outputs],
            "mutable_bytes": segment.mutable_bytes,
            "arena_bytes": segment.arena_bytes,
            "features": list(segment.features),
            "info": segment.info,
        }
        for index, segment in enumerate(package.segments)
    ]
    return {
        "format": FORMAT_VERSION,
        "size": size,
        "model": package.model,
        "target": package.target,
        "versions": package.versions,
        "inputs": list(package.inputs),
        "outputs": list(package.outputs),
        "info": package.info,
        "segments": segments,
    }


def _read_header(mapped: np.ndarray, path: Path) -> dict[str, Any]:
    magic, version, length, digest = _PREFIX.unpack(mapped[: _PREFIX.size].tobytes())
    if magic != MAGIC:
        raise ArtefactError(f"{path} is not a Tilewright artefact")
    if version != FORMAT_VERSION:
        raise ArtefactError(
            f"{path} has format version {version}, this Tilewright reads {FORMAT_VERSION}; "
            "compile the model again"
        )
    text = mapped[_PREFIX.size : _PREFIX.size + length].tobytes()
    if sha256(text).digest() != digest:
        raise ArtefactError(f"{path} is damaged: the checksum of its header does not match")
    header: dict[str, Any] = json.loads(text)
    if mapped.size != header["size"]:
        raise ArtefactError(
            f"{path} is truncated or damaged: {header['size']} bytes expected, {mapped.size} found"
        )
    return header


def _read_segment(mapped: np.ndarray, entry: dict[str, Any], path: Path) -> Segment:
    code, constants = (_section(mapped, entry[name], name, path) for name in ("code", "constants"))
    return Segment(
        entry["target"],
        code.tobytes(),
        constants,
        tuple(_port(port, path) for port in entry["inputs"]),
        tuple(_port(port, path) for port in entry["outputs"]),
        entry["mutable_bytes"],
        entry["arena_bytes"],
        tuple(entry["features"]),
        entry["info"],
    )


def _section(mapped: np.ndarray, entry: dict[str, Any], name: str, path: Path) -> np.ndarray:
    section = mapped[entry["offset"] : entry["offset"] + entry["length"]]
    if section.size != entry["length"] or sha256(section.data).hexdigest() != entry["sha256"]:
        raise ArtefactError(f"{path} is damaged: the checksum of its {name} does not match")
    return section


def _port(entry: dict[str, Any], path: Path) -> Port:
    if entry["dtype"] not in DTYPES:
        raise ArtefactError(f"{path}: port '{entry['name']}' has the unknown element type {entry['dtype']}")
    counts = tuple((int(axis), str(name)) for axis, name in entry.get("counts", ()))
    return Port(entry["name"], entry["dtype"], tuple(entry["shape"]), entry["offset"], counts)
