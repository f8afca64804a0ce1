"""Caches on disk know the compiler by its files: no module that takes part may be missing among these."""

import subprocess
import sys
from pathlib import Path

import pytest

import tilewright
from tilewright.lower.store import SOURCES as LOWERING
from tilewright.targets.cpu.object_cache import SOURCES as CODE_GENERATION

ROOT = Path(tilewright.__file__).parent
SCRIPT = """
import sys
import {}
print(*(m.__file__ for name, m in sys.modules.items() if name.split(".")[0] == "tilewright"), sep="\\n")
"""


@pytest.mark.parametrize(
    ("modules", "patterns"),
    [
        ("tilewright.lower.worker", LOWERING),
        ("tilewright.targets.cpu.target, tilewright.lower.worker", (*LOWERING, "targets/cpu/**/*.py")),
        ("tilewright.targets.cpu.codegen, tilewright.targets.cpu.objects", CODE_GENERATION),
    ],
)
def test_every_module_that_takes_part_is_in_the_key(modules: str, patterns: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", SCRIPT.format(modules)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    known = {path for pattern in patterns for path in ROOT.glob(pattern)}
    missing = {Path(name) for name in loaded} - known
    assert len(loaded) > 10
    assert not {path for path in missing if path.name != "__init__.py"}
