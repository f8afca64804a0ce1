"""Tilewright: neural networks compiled to kernels that it generates itself.

Names are resolved on first use, so that loading and running an artefact imports nothing of the compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.config import ABLATIONS, PRECISIONS, default_cache_dir
    from tilewright.driver import compile, evaluate, load
    from tilewright.errors import (
        ArtefactError,
        CacheError,
        CodegenError,
        ImportModelError,
        LoweringError,
        RunError,
        TilewrightError,
        UsageError,
    )
    from tilewright.runtime.executable import Executable
    from tilewright.session import InferenceSession
    from tilewright.targets.cpu.ceilings import measure_ceilings

__version__ = "0.1.0"
__all__ = [
    "ABLATIONS",
    "PRECISIONS",
    "ArtefactError",
    "CacheError",
    "CodegenError",
    "Executable",
    "ImportModelError",
    "InferenceSession",
    "LoweringError",
    "RunError",
    "TilewrightError",
    "UsageError",
    "compile",
    "default_cache_dir",
    "evaluate",
    "load",
    "measure_ceilings",
]

_HOMES = {
    "ABLATIONS": "tilewright.config",
    "PRECISIONS": "tilewright.config",
    "compile": "tilewright.driver",
    "default_cache_dir": "tilewright.config",
    "evaluate": "tilewright.driver",
    "load": "tilewright.driver",
    "measure_ceilings": "tilewright.targets.cpu.ceilings",
    "Executable": "tilewright.runtime.executable",
    "InferenceSession": "tilewright.session",
    "ArtefactError": "tilewright.errors",
    "CacheError": "tilewright.errors",
    "CodegenError": "tilewright.errors",
    "ImportModelError": "tilewright.errors",
    "LoweringError": "tilewright.errors",
    "RunError": "tilewright.errors",
    "TilewrightError": "tilewright.errors",
    "UsageError": "tilewright.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tilewright' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
