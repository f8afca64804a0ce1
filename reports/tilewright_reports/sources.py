"""Result files as they lie on disk: read once and kept as bytes, so a report carries exactly what it read."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tilewright.errors import DataError

KINDS = ("bench", "accuracy", "layers")


@dataclass(frozen=True)
class Source:
    """One file. `name` is its place below the report's `raw` folder, `data` its parsed JSON."""

    name: str
    content: bytes
    data: dict[str, Any]


@dataclass(frozen=True)
class Sources:
    """All files of one report; asv files by their place in asv's results folder."""

    bench: Sequence[Source]
    accuracy: Sequence[Source]
    asv: Sequence[Source]
    layers: Sequence[Source] = ()

    def all(self) -> list[Source]:
        return [*self.bench, *self.accuracy, *self.layers, *self.asv]


def read_sources(
    bench: Sequence[Path], accuracy: Sequence[Path], asv: Path | None, layers: Sequence[Path] = ()
) -> Sources:
    """Read everything before anything is written. Raises DataError that names a missing or damaged file."""
    return Sources(
        [_numbered("bench", number, path) for number, path in enumerate(bench, 1)],
        [_numbered("accuracy", number, path) for number, path in enumerate(accuracy, 1)],
        _asv_sources(asv) if asv else [],
        [_numbered("layers", number, path) for number, path in enumerate(layers, 1)],
    )


def raw_sources(folder: Path) -> Sources:
    """The files that a report was made of, from its folder. Raises DataError when there are none."""
    raw = folder / "raw"
    asv = raw / "asv"
    sources = read_sources(
        sorted((raw / "bench").glob("*.json")),
        sorted((raw / "accuracy").glob("*.json")),
        asv if asv.is_dir() else None,
        sorted((raw / "layers").glob("*.json")),
    )
    if not sources.all():
        raise DataError(f"{folder}: no raw data below {raw}; a report is checked against its raw files")
    return sources


def _numbered(kind: str, number: int, path: Path) -> Source:
    # A report made again from its own raw files keeps their names.
    stem = re.sub(r"^\d\d-", "", path.name)
    source = _read(path, f"{kind}/{number:02}-{stem}")
    if not isinstance(source.data.get("rows"), list):
        raise DataError(f'{path}: no "rows"; expected the JSON that tilewright {kind} --json writes')
    return source


def _asv_sources(folder: Path) -> list[Source]:
    if not (folder / "benchmarks.json").is_file():
        raise DataError(f"{folder}: no benchmarks.json; expected asv's results folder, e.g. bench/results")
    paths = sorted(path for path in folder.rglob("*.json") if not path.name.startswith("."))
    return [_read(path, str(PurePosixPath("asv", *path.relative_to(folder).parts))) for path in paths]


def _read(path: Path, name: str) -> Source:
    try:
        content = path.read_bytes()
        # json also reads the NaN and Infinity that asv writes.
        data = json.loads(content)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise DataError(f"{path}: a JSON object was expected, not a {type(data).__name__}")
    return Source(name, content, data)
