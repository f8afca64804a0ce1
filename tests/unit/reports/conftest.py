"""Result files on disk."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[[str, dict[str, Any]], Path]:
    def write(name: str, data: dict[str, Any]) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(data))
        return path

    return write


@pytest.fixture
def asv_folder() -> Path:
    """What asv 0.6.6 wrote for a suite of three benchmarks whose engine 'b' fails or is skipped."""
    return Path(__file__).parent / "asv"
