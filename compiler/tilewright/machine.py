"""A machine as a value: what templates and code generators may know about it. Nothing below asks the host.

`targets/<name>/detect.py` makes one from the host or a device; `--machine PROFILE` reads one from a JSON
file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
        """Read a profile; `units` and `limits` may be left out.

        Raises UsageError that names the file, and the field that is missing, unknown or of the wrong kind.
        """
        try:
            facts = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"machine profile {path} cannot be read: {error}") from error
        fault = _fault(facts)
        if fault:
            raise UsageError(f"machine profile {path}: {fault}")
        features, caches = sorted(set(facts["features"])), facts["caches"]
        return Machine(**facts | {"features": tuple(features), "caches": tuple(caches)})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _are_amounts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(amount) is int for amount in value.values())


# What a profile may say: for each field what is expected, and whether a value is that.
_FIELDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("a string", _is_text),
    "triple": ("a string", _is_text),
    "features": ("a list of strings", lambda value: isinstance(value, list) and all(map(_is_text, value))),
    "vector_bits": ("a positive integer", _is_count),
    "registers": ("a positive integer", _is_count),
    "caches": (
        "the bytes of L1d, L2 and L3, a list of three positive integers",
        lambda value: isinstance(value, list) and len(value) == 3 and all(map(_is_count, value)),
    ),
    "units": ("an object of integers", _are_amounts),
    "limits": ("an object of integers", _are_amounts),
}
_OPTIONAL = ("units", "limits")


def _fault(facts: Any) -> str:
    """What is wrong with the JSON value of a profile; empty when nothing is."""
    if not isinstance(facts, dict):
        return f"expected an object with the fields {', '.join(_FIELDS)}"
    missing = [key for key in _FIELDS if key not in facts and key not in _OPTIONAL]
    if missing:
        return f"field '{missing[0]}' is missing: {_FIELDS[missing[0]][0]}"
    for key, value in facts.items():
        if key not in _FIELDS:
            return f"there is no field '{key}'; known: {', '.join(_FIELDS)}"
        expected, fits = _FIELDS[key]
        if not fits(value):
            return f"field '{key}' is {json.dumps(value)}; expected {expected}"
    return ""
