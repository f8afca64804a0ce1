"""Where the room keeps files and where it fetches them: the only place that reads the environment.

`TILEWRIGHT_CACHE_DIR` moves the cache; `TILEWRIGHT_MIRROR` replaces the base address of the public ONNX
models (an `http://`, `https://` or `file://` address).
"""

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

# Where the files of the repository onnx/models live since it left Git LFS; same paths, same checksums.
ONNX_MODELS_BASE = (
    "https://huggingface.co/onnxmodelzoo/legacy_models/resolve/main/validated/vision/classification"
)


@dataclass(frozen=True)
class Config:
    """`cache_dir`: root of everything fetched or built; `mirror`: base address of the public ONNX models."""

    cache_dir: Path
    mirror: str


def from_environment() -> Config:
    """What the environment asks for, else the platform's user cache and the public address."""
    cache = os.environ.get("TILEWRIGHT_CACHE_DIR") or platformdirs.user_cache_dir("tilewright")
    mirror = os.environ.get("TILEWRIGHT_MIRROR") or ONNX_MODELS_BASE
    return Config(cache_dir=Path(cache).expanduser() / "datasets", mirror=mirror.rstrip("/"))
