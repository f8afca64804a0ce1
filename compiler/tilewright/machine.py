"""A machine as a value: what templates and code generators may know about it. Nothing below asks the host.

`targets/<name>/detect.py` makes one from the host or a device; `--machine PROFILE` reads one from a JSON
file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright.errors import UsageError


@dataclass(frozen=True)
class Machine:
    """name: of the profile, for people; triple: LLVM's; features: sorted LLVM feature names, or device
    extensions.

    vector_bits: width of a vector register; registers: how many of them; caches: bytes of L1d, L2, L3 for
    one core;
    units: what else computes, e.g. {"amx_bf16": 1}; limits: of a device, e.g. {"work_group": 4096}.
    """

    name: str
    triple: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    registers: int = 16
    caches: tuple[int, ...] = (32768, 1 << 20, 1 << 24)
    units: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)

    def lanes(self, bits: int = 32) -> int:
        """Elements of the given width in one vector register."""
        return self.vector_bits // bits

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def key(self) -> str:
        """A digest of everything that generated code depends on; the name does not count."""
        facts = asdict(replace(self, name=""))
        return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_file(path: Path) -> Machine:
        """Read a profile. Raises UsageError when the file is missing or malformed."""
        try:
            facts = json.loads(path.read_text())
            for key in ("features", "caches"):
                facts[key] = tuple(facts.get(key, ()))
            return Machine(**facts)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"machine profile {path} cannot be read: {error}") from error
