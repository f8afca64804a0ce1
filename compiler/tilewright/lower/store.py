"""Lowered kernels on disk: what was lowered once, on this machine by this compiler, need not be again.

An entry is a line of JSON, the work and notes, and the kernel's text.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256

from tilewright.disk_cache import DiskCache
from tilewright.errors import ParseError
from tilewright.lower.kernel import Lowered
from tilewright.lower.target import Target
from tilewright.program.callee import Callee
from tilewright.program.count import Work
from tilewright.sources import digest_of_sources

ROOM, SUFFIX = "kernels", ".kernel"
# Of what makes a kernel's loops from a group; the target's own are part of its `schedule_key`.
SOURCES = (
    "*.py",
    *(f"{room}/*.py" for room in ("graph", "ops", "tensor", "schedule", "loops", "program", "lower")),
)


class KernelStore:
    """Kernels by the description of their group (`description.py`), in a cache."""

    def __init__(self, cache: DiskCache, target: Target) -> None:
        self._cache = cache
        self._base = f"{target.name}\0{target.schedule_key}\0{digest_of_sources(*SOURCES)}\0"

    def get(self, description: str) -> Lowered | None:
        """The kernel without its code; None when there is none. What is no such entry is removed."""
        key = self._key(description)
        data = self._cache.get(key)
        if data is None:
            return None
        try:
            head, _, text = data.decode().partition("\n")
            facts = json.loads(head)
            return Lowered(Callee.from_text(text, Work(**facts["work"])), dict(facts["notes"]))
        except (ValueError, KeyError, TypeError, ParseError):
            self._cache.drop(key)
            return None

    def put(self, description: str, lowered: Lowered) -> None:
        """Raises CacheError when the folder cannot be written."""
        head = json.dumps({"work": asdict(lowered.callee.work), "notes": lowered.notes})
        self._cache.put(self._key(description), f"{head}\n{lowered.callee.text}".encode())

    def _key(self, description: str) -> str:
        return sha256((self._base + description).encode()).hexdigest()
