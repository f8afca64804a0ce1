"""Every test of this room has a cache of its own."""

from pathlib import Path

import pytest

from tilewright_datasets.config import Config, from_environment


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The configuration with an empty cache and no way to a real server."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_MIRROR", "http://127.0.0.1:9/unreachable")
    return from_environment()
